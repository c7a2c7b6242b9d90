// NICs of a running guest.
import { plugNic } from "@gpve/domain/vm/argv/device/hotplug-arguments.ts";
import { usesVhost } from "@gpve/domain/vm/argv/device/net-descriptors.ts";
import type { NetDevice } from "@gpve/domain/vm/config/property-types.ts";
import { unplugDevice } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { guestTap } from "../start/start-plan.ts";
import {
  isUserNetwork,
  startUserNetwork,
  stopUserNetwork,
  userNetworkId,
  userNetworkRemarks,
  userNetworkSocket,
} from "../helpers/user-network.ts";
import { readNet } from "@gpve/domain/vm/config/vm-network.ts";
import { attempt, runningInput, runPlan, UNPLUG_TIMEOUT_MS, type LiveWork } from "./guest-devices.ts";

export async function plugLiveNet(
  work: LiveWork,
  values: VmValues,
  key: string,
  text: string,
): Promise<void> {
  const { host, vmid, process, log } = work;
  const net = readNet(key, text);
  const after = { ...values, [key]: text };
  const input = runningInput(work, after);
  if (net.bridge === undefined || isUserNetwork(host, net)) return plugUserNetwork(work, after, key, net);
  const bridge = await host.network.bridge(key, net);
  const tap = guestTap(host.network.newTap(vmid, key), net, bridge);
  const vhost = usesVhost(net, after, host.qemu.facts());
  await filterCard(work, key, tap.name, net);
  try {
    await process.plugTap(key, { ...tap, vhost });
    await addCard(work, key, net, {
      ...input,
      host: { ...input.host, bridgeMtu: { [net.bridge]: bridge.mtu } },
    });
  } catch (err) {
    await host.network.unfilter(vmid, tap.name);
    throw err;
  }
  for (const line of await host.network.configure(tap.name, net)) log(`${key}: ${line}`);
}

/** The process behind the card runs before the card is there, and no longer than it. */
async function plugUserNetwork(work: LiveWork, values: VmValues, key: string, net: NetDevice): Promise<void> {
  const { host, vmid, process, log } = work;
  const socket = await startUserNetwork(host, vmid, key, values);
  try {
    await process.allowFile(socket);
    await process.qmp.execute("netdev_add", {
      type: "stream",
      id: key,
      server: false,
      addr: { type: "unix", path: socket.path },
    });
    await addCard(work, key, net, runningInput(work, values));
  } catch (err) {
    await stopUserNetwork(host, vmid, key);
    throw err;
  }
  for (const line of userNetworkRemarks(host, vmid, values).filter((each) => each.startsWith(`${key} `)))
    log(line);
}

async function filterCard(
  { host, vmid, log }: LiveWork,
  key: string,
  tap: string,
  net: NetDevice,
): Promise<void> {
  const remark = await host.network.filter(vmid, tap, net);
  if (remark !== undefined) log(`${key}: ${remark}`);
}

async function addCard(
  { process }: LiveWork,
  key: string,
  net: NetDevice,
  input: Parameters<typeof plugNic>[0],
): Promise<void> {
  try {
    await runPlan(process, plugNic(input, key, net));
    if (net.link_down === true) await process.qmp.execute("set_link", { name: key, up: false });
  } catch (err) {
    await attempt(process, { execute: "netdev_del", arguments: { id: key } });
    throw err;
  }
}

export async function unplugLiveNet({ host, vmid, process }: LiveWork, key: string): Promise<void> {
  const tap = host.network.tapOf(vmid, key);
  await unplugDevice(process.qmp, key, { timeoutMs: UNPLUG_TIMEOUT_MS });
  await process.qmp.execute("netdev_del", { id: key });
  await host.network.unfilter(vmid, tap);
  const socket = userNetworkSocket(host, vmid, key);
  if (host.processes.get(userNetworkId(vmid, key)) === undefined) return;
  await process.forbidFile(socket);
  await stopUserNetwork(host, vmid, key);
}

/** Bridge, VLANs, rate and link state; the card stays as it is. */
export async function changeNet(work: LiveWork, values: VmValues, key: string, text: string): Promise<void> {
  const { host, vmid, process, log } = work;
  const before = readNet(key, values[key] ?? "");
  const net = readNet(key, text);
  if (net.bridge !== undefined && !isUserNetwork(host, net)) {
    const tap = host.network.tapOf(vmid, key);
    const bridge = await host.network.bridge(key, net);
    if (before.bridge !== net.bridge) await host.network.attach(tap, bridge);
    for (const line of await host.network.configure(tap, net)) log(`${key}: ${line}`);
    if ((before.firewall ?? false) !== (net.firewall ?? false)) await filterCard(work, key, tap, net);
  }
  if ((before.link_down ?? false) !== (net.link_down ?? false))
    await process.qmp.execute("set_link", { name: key, up: net.link_down !== true });
}
