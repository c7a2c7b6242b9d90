// NICs: the host side (a tap the supervisor opened, a process that is the network, or QEMU's own) and the card the guest sees.
import { refused } from "../../../request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import type { NetDevice } from "../../config/property-types.ts";
import type { Build } from "../build.ts";
import type { NetDescriptors } from "../command-input.ts";
import { device, escapeComma, type DeviceOptions, type OptionValue } from "../text/option-text.ts";
import { addressProperties, type PciAddress } from "./pci-address.ts";

/** What a NIC depends on besides its configuration. */
export interface NicContext {
  /** MTU of the bridge; undefined when the NIC is on none. */
  readonly bridgeMtu?: number;
  /** MTU the running guest on the other side of a migration has. */
  readonly hostMtu?: number;
  readonly address: PciAddress | undefined;
  readonly bootIndex?: number;
  readonly wideQueues: boolean;
  readonly packedQueues: boolean;
  readonly alwaysMtu: boolean;
  /** What QEMU does with the host's tunnel offload: it has none, it is on unless told, or PVE turned it off. */
  readonly tunnel: "none" | "on" | "off";
  /** PVE gives even an ISA card a PCI address. */
  readonly isaAddress: boolean;
  /** `""` for none: QEMU then does not look for network boot code. */
  readonly romfile?: string;
}

export interface NicOptions {
  readonly device: DeviceOptions;
  readonly warning?: string;
}

const MAX_NETS = 32;
const DEFAULT_MTU = 1500;
const SMALLEST_MTU = 576;
const OLD_ROMS: Readonly<Record<string, string>> = {
  "virtio-net-pci": "pxe-virtio.rom",
  e1000: "pxe-e1000.rom",
  e1000e: "pxe-e1000e.rom",
  ne2k: "pxe-ne2k_pci.rom",
  pcnet: "pxe-pcnet.rom",
  rtl8139: "pxe-rtl8139.rom",
};

export function netKeys(values: Readonly<Record<string, string>>): string[] {
  return Array.from({ length: MAX_NETS }, (_, index) => `net${index}`).filter(
    (key) => values[key] !== undefined,
  );
}

export function addNets(build: Build): void {
  for (const key of netKeys(build.values)) {
    const net = readVmProperty("net", build.values[key] ?? "", key);
    build.devices.push("-netdev", netdevText(build, key, net));
    const nic = nicDevice(key, net, nicContext(build, key, net));
    if (nic.warning !== undefined) build.warnings.push(nic.warning);
    build.addDevice(nic.device);
  }
}

export function nicContext(build: Build, key: string, net: NetDevice): NicContext {
  const bootIndex = build.bootIndexes.get(key);
  const hostMtu = build.options.netHostMtu?.[key];
  const driver = nicDriver(net);
  const oldRoms = build.machine.oldRoms || !build.since(2, 4);
  const rom = oldRoms && !build.stock ? OLD_ROMS[driver] : undefined;
  const romfile = build.stock && !build.host.netBootRoms && driver !== "ne2k_isa" ? "" : rom;
  return {
    address: build.pci.place(key),
    wideQueues: build.since(7, 1),
    packedQueues: build.since(7, 1) && build.knows("packed-queues"),
    alwaysMtu: build.guard(10, 0, 1),
    tunnel: tunnelDefault(build),
    isaAddress: !build.stock,
    ...(net.bridge === undefined ? {} : { bridgeMtu: build.host.bridgeMtu[net.bridge] ?? DEFAULT_MTU }),
    ...given({ hostMtu, bootIndex, romfile }),
  };
}

function tunnelDefault(build: Build): NicContext["tunnel"] {
  if (!build.since(10, 2) || !build.knows("host-tunnel")) return "none";
  return build.since(11, 0, 1) ? "off" : "on";
}

/** The card the guest sees; the same when it is plugged while the guest runs. */
export function nicDevice(key: string, net: NetDevice, context: NicContext): NicOptions {
  const virtio = net.model === "virtio";
  const multi = virtio && net.queues !== undefined && net.queues > 1;
  const mtu = nicMtu(key, net, context);
  const properties: (readonly [string, OptionValue | undefined])[] = [
    ["mac", net.macaddr],
    ["netdev", key],
    ...(net.model === "ne2k_isa" && !context.isaAddress ? [] : addressProperties(context.address)),
    ["id", key],
    // One vector per direction of each queue, one for configuration, one for control.
    ["vectors", multi ? (net.queues ?? 0) * 2 + 2 : undefined],
    ["mq", multi ? true : undefined],
    ["packed", multi && context.packedQueues ? true : undefined],
    ["rx_queue_size", virtio && context.wideQueues ? 1024 : undefined],
    ["tx_queue_size", virtio && context.wideQueues ? 256 : undefined],
    ["bootindex", context.bootIndex],
    ["host_mtu", mtu],
    ["romfile", context.romfile],
    ["host_tunnel", virtio && tunnelIsOff(net, context) ? false : undefined],
  ];
  const warning = mtuWarning(key, net, context);
  return {
    device: device(nicDriver(net), ...properties),
    ...given({ warning }),
  };
}

/** Guests whose kernel sums wrongly in tunnels lose packets with it, so it is off unless somebody wants it. */
function tunnelIsOff(net: NetDevice, { tunnel }: NicContext): boolean {
  if (tunnel === "none") return false;
  return tunnel === "off" ? net["host-tunnel"] !== true : net["host-tunnel"] === false;
}

function mtuWarning(key: string, net: NetDevice, { hostMtu, alwaysMtu }: NicContext): string | undefined {
  if (net.mtu === undefined) return undefined;
  const ignoring = `netdev ${key}: ignoring MTU '${net.mtu}'`;
  if (hostMtu === 0) {
    return alwaysMtu || net.mtu !== DEFAULT_MTU
      ? `${ignoring}, not used on the source side according to migration parameters`
      : undefined;
  }
  if (net.bridge === undefined) return `${ignoring}, no bridge configured`;
  return net.model === "virtio" ? undefined : `${ignoring}, not using VirtIO`;
}

/** Arguments of `netdev_add` for a tap whose descriptors were passed by name with `getfd`. */
export function tapNetdevArguments(
  key: string,
  names: { readonly tap: readonly string[]; readonly vhost?: readonly string[] },
): Readonly<Record<string, string | boolean>> {
  const many = names.tap.length > 1;
  return {
    type: "tap",
    id: key,
    [many ? "fds" : "fd"]: names.tap.join(":"),
    ...(names.vhost === undefined
      ? {}
      : { vhost: true, [many ? "vhostfds" : "vhostfd"]: names.vhost.join(":") }),
  };
}

function nicDriver(net: NetDevice): string {
  return net.model === "virtio" ? "virtio-net-pci" : net.model;
}

function nicMtu(
  key: string,
  net: NetDevice,
  { bridgeMtu, hostMtu, alwaysMtu }: NicContext,
): number | undefined {
  if (net.model !== "virtio" || bridgeMtu === undefined) return undefined;
  // 0: the guest that comes in has none.
  if (hostMtu === 0) return undefined;
  let mtu = hostMtu ?? net.mtu;
  // 1 stands for the bridge's.
  if (mtu === undefined || mtu === 1) mtu = bridgeMtu;
  else if (mtu < SMALLEST_MTU)
    throw refused(`netdev ${key}: MTU '${mtu}' is smaller than the IP minimum MTU '${SMALLEST_MTU}'`);
  else if (mtu > bridgeMtu)
    throw refused(
      `netdev ${key}: MTU '${mtu}' is bigger than the bridge MTU '${bridgeMtu}' - adjust the MTU for the network device in the VM configuration, while ensuring that the bridge is configured as desired.`,
    );
  return alwaysMtu || hostMtu !== undefined || mtu !== DEFAULT_MTU ? mtu : undefined;
}

export function netdevText(build: Build, key: string, net: NetDevice): string {
  const name = escapeComma(build.values["name"] ?? `vm${build.vmid}`);
  const queues =
    net.model === "virtio" && net.queues !== undefined && net.queues > 0 ? net.queues : undefined;
  const socket = build.options.netSockets?.[key];
  if (socket !== undefined)
    return `stream,id=${key},server=off,addr.type=unix,addr.path=${escapeComma(socket)}`;
  if (net.bridge === undefined) {
    const queuesText = queues === undefined || build.stock ? "" : `,queues=${queues}`;
    return `type=user,id=${key},hostname=${name}${queuesText}`;
  }
  if (build.stock) return tapText(key, build.options.netDescriptors?.[key]);
  const vhost = build.native && build.host.vhostNet && net.model === "virtio" ? ",vhost=on" : "";
  const tap = `tap${build.vmid}i${key.slice("net".length)}`;
  if (tap.length >= 16) throw refused(`interface name '${tap}' is too long (max 15 character)`);
  const scripts = "/usr/libexec/qemu-server/pve-bridge";
  return `type=tap,id=${key},ifname=${tap},script=${scripts},downscript=${scripts}down${vhost}${
    queues === undefined ? "" : `,queues=${queues}`
  }`;
}

function tapText(key: string, descriptors: NetDescriptors | undefined): string {
  if (descriptors === undefined || descriptors.tap.length === 0)
    throw refused(`${key}: no tap device was opened for it`);
  const names = {
    tap: descriptors.tap.map(String),
    ...given({ vhost: descriptors.vhost?.map(String) }),
  };
  const { type, ...rest } = tapNetdevArguments(key, names);
  const parts = Object.entries(rest).map(
    ([name, value]) => `${name}=${value === true ? "on" : String(value)}`,
  );
  return [String(type), ...parts].join(",");
}
