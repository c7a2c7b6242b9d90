// A network card without a tap: a small QEMU of its own speaks for the guest on the host's network (slirp), and the
// guest's QEMU, which has an empty network namespace, reaches it by a unix socket. The guest gets an address, names and
// the way out; from the host its SSH port is reached at a port of 127.0.0.1.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { USER_NETWORK_BOUNDS } from "@gpve/domain/vm/running/vm-bounds.ts";
import type { GuestFile, GuestProcess, GuestStart } from "@gpve/domain/guest/guest-processes.ts";
import type { NetDevice } from "@gpve/domain/vm/config/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import type { CallOptions } from "@gpve/domain/guest/guest-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import { listNets, readNet, type VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";
import { escapeComma } from "@gpve/domain/vm/argv/text/option-text.ts";
import type { QemuHost } from "@gpve/domain/vm/host/qemu-host.ts";
import { helperFailed, type HelperPorts, stopHelper, whyNotListening } from "./listening-helper.ts";

export interface UserNetworkPorts extends HelperPorts {
  readonly network: VmNetwork;
  readonly qemu: QemuHost;
}

/** The guest's SSH is at FIRST_PORT + VMID where that is free. */
const FIRST_PORT = 20_000;
const PORTS = 10_000;
const PORT_TRIES = 64;
/** Where the host's name servers are. */
const NAME_SERVERS = "/etc/resolv.conf";

interface UserNetworkNote {
  readonly vmid: number;
  readonly key: string;
  readonly sshPort?: number;
}

/** On no bridge by its configuration, or on a host that gives us no taps. */
export function isUserNetwork(host: UserNetworkPorts, net: NetDevice): boolean {
  return net.bridge === undefined || host.network.tapsMissing !== undefined;
}

export function userNetworkId(vmid: number, key: string): string {
  return `${vmid}-${key}`;
}

export function userNetworkSocket(host: UserNetworkPorts, vmid: number, key: string): string {
  return `${host.processes.placeOf(userNetworkId(vmid, key)).ioFolder}/net`;
}

/** What QEMU must be able to open. Nothing runs when it throws. */
export async function startUserNetworks(
  host: UserNetworkPorts,
  vmid: number,
  values: VmValues,
  signal: AbortSignal,
): Promise<readonly GuestFile[]> {
  const sockets: GuestFile[] = [];
  try {
    for (const { key, net } of listNets(values))
      if (isUserNetwork(host, net)) sockets.push(await startUserNetwork(host, vmid, key, values, signal));
    return sockets;
  } catch (err) {
    await stopUserNetworks(host, vmid);
    throw err;
  }
}

export async function startUserNetwork(
  host: UserNetworkPorts,
  vmid: number,
  key: string,
  values: VmValues,
  signal?: AbortSignal,
): Promise<GuestFile> {
  await stopUserNetwork(host, vmid, key);
  const path = userNetworkSocket(host, vmid, key);
  // One way in is enough: only the first such card of a VM has it.
  const isFirst = listNets(values).find(({ net }) => isUserNetwork(host, net))?.key === key;
  const ports = isFirst ? await freePorts(host, vmid) : [undefined];
  for (const [index, sshPort] of ports.entries()) {
    const note: UserNetworkNote = { vmid, key, ...given({ sshPort }) };
    const process = await startWalledOff(
      host,
      {
        id: userNetworkId(vmid, key),
        label: `user-mode network of VM ${vmid} ${key}`,
        program: host.qemu.binary,
        args: switchArguments(path, values["name"] ?? `vm${vmid}`, sshPort),
        bounds: USER_NETWORK_BOUNDS,
        hostNetwork: true,
        outwardOnly: true,
        files: host.files.exists(NAME_SERVERS) ? [{ path: NAME_SERVERS, access: "ro", owned: false }] : [],
        note,
      },
      signal === undefined ? {} : { signal },
    );
    const failure = await whyNotListening(host, process, path);
    if (failure === undefined) return { path, access: "rw", owned: true };
    // Somebody was quicker: the next port.
    if (/host forwarding rule/.test(failure) && index + 1 < ports.length) continue;
    throw helperFailed(process, failure);
  }
  throw new AppError("capacity.exceeded", `no free port of 127.0.0.1 for the SSH of VM ${vmid}`, {
    pveStatus: 500,
  });
}

/** From its first packet on it reaches nothing of this machine. */
async function startWalledOff(
  host: UserNetworkPorts,
  start: GuestStart,
  options: CallOptions,
): Promise<GuestProcess> {
  await host.network.wallOff(start.id);
  try {
    return await host.processes.start(start, options);
  } catch (err) {
    await host.network
      .unwall(start.id)
      .catch((failed: unknown) => ignore(failed, "why it did not start is what counts"));
    throw err;
  }
}

export async function stopUserNetwork(host: UserNetworkPorts, vmid: number, key: string): Promise<void> {
  await stopHelper(host, userNetworkId(vmid, key));
}

export async function stopUserNetworks(host: UserNetworkPorts, vmid: number): Promise<void> {
  for (const { note, hasExited } of host.processes.list()) {
    const of = note as Partial<UserNetworkNote> | undefined;
    if (!hasExited && of?.vmid === vmid && of.key !== undefined) await stopUserNetwork(host, vmid, of.key);
  }
}

/** For the task's log and for whoever asks what the guest runs with. */
export function userNetworkRemarks(host: UserNetworkPorts, vmid: number, values: VmValues): string[] {
  return listNets(values).flatMap(({ key }) => {
    const process = host.processes.get(userNetworkId(vmid, key));
    if (process === undefined || process.hasExited) return [];
    const { sshPort } = process.note as UserNetworkNote;
    const net = readNet(key, values[key] ?? "");
    const missing = net.bridge === undefined ? undefined : host.network.tapsMissing;
    const why =
      missing === undefined ? "" : `, because ${missing}; other guests on ${net.bridge} are not reached`;
    const user = values["ciuser"] ?? "USER";
    const ssh = sshPort === undefined ? "" : `. Reach it with: ssh -p ${sshPort} ${user}@127.0.0.1`;
    return [`${key} has a user-mode network (outward only)${why}${ssh}`];
  });
}

function switchArguments(path: string, hostname: string, sshPort: number | undefined): string[] {
  const forward = sshPort === undefined ? "" : `,hostfwd=tcp:127.0.0.1:${sshPort}-:22`;
  const port = (id: string, netdev: string): string[] => [
    "-netdev",
    `hubport,id=${id},hubid=0,netdev=${netdev}`,
  ];
  return [
    "-nodefaults",
    "-no-user-config",
    "-machine",
    "none",
    "-display",
    "none",
    "-sandbox",
    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
    "-netdev",
    `user,id=outside,hostname=${escapeComma(hostname)}${forward}`,
    "-netdev",
    `stream,id=guest,server=on,addr.type=unix,addr.path=${escapeComma(path)}`,
    ...port("one", "outside"),
    ...port("two", "guest"),
  ];
}

/** The same port again at the next start, where it is free. */
async function freePorts(host: UserNetworkPorts, vmid: number): Promise<number[]> {
  const free: number[] = [];
  for (let step = 0; step < PORT_TRIES && free.length < 4; step++) {
    const port = FIRST_PORT + ((vmid + step) % PORTS);
    if (await host.network.isPortFree(port)) free.push(port);
  }
  return free;
}
