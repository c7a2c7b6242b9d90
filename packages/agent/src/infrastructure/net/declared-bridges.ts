// Bridges that a node's configuration names (`network.bridges`). One that is absent is made; one that is there keeps what
// it has, and gets what it lacks. A port that carries the machine's own addresses is left alone: taking it into a bridge
// would cut the machine off. What cannot be done is told, and the rest goes on.
import { messageOf } from "@gpve/contracts/errors.ts";
import { clusterBridgeRefusal, isClusterBridge } from "@gpve/domain/vcluster/cluster-bridge.ts";
import type { Capability } from "@gpve/domain/node/runtime.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { listInterfaces, type NetInterface } from "./interfaces.ts";

export interface DeclaredBridge {
  readonly name: string;
  /** "192.0.2.1/24" */
  readonly address?: string | undefined;
  readonly vlanAware: boolean;
  readonly ports: readonly string[];
}

interface Deps {
  readonly exec: Exec;
  readonly log: Pick<Logger, "info" | "error">;
  readonly uid?: number | undefined;
}

/** One row for each bridge: that it is as declared, or why not and what to do. */
export async function ensureBridges(
  bridges: readonly DeclaredBridge[],
  deps: Deps,
): Promise<readonly Capability[]> {
  const rows: Capability[] = [];
  for (const bridge of bridges) {
    const problems = await ensureBridge(bridge, deps);
    for (const problem of problems) deps.log.error({ bridge: bridge.name }, `network.bridges: ${problem}`);
    rows.push({
      name: `bridge ${bridge.name}`,
      available: problems.length === 0,
      detail: problems.length === 0 ? shape(bridge) : problems.join("; "),
      ...(problems.length === 0
        ? {}
        : { fix: "Set it up as the machine's own network configuration does, then start the agent again." }),
    });
  }
  return rows;
}

async function ensureBridge(bridge: DeclaredBridge, deps: Deps): Promise<string[]> {
  const { name, address, vlanAware, ports } = bridge;
  if (isClusterBridge(name)) return [clusterBridgeRefusal(name)];
  const ip = (...args: string[]) => deps.exec("ip", args);
  try {
    const found = await interfaces(deps.exec);
    const known = found.get(name);
    if (known !== undefined && known.kind !== "bridge")
      return [`'${name}' is there and no bridge: choose another name`];
    const lacks = missing(bridge, found);
    if (lacks.length > 0 && (deps.uid ?? process.getuid?.()) !== 0)
      return [`'${name}' lacks ${lacks.join(", ")}, and only root can change that`];
    if (known === undefined) {
      await ip("link", "add", "name", name, "type", "bridge");
      deps.log.info({ bridge: name }, "a bridge of the configuration was made");
    }
    const problems: string[] = [];
    const filters = ["link", "set", "dev", name, "type", "bridge", "vlan_filtering", "1"];
    if (vlanAware && known?.vlanAware !== true)
      await ip(...filters).catch((err: unknown) => {
        problems.push(`'${name}' cannot filter by VLAN, which this kernel may lack: ${messageOf(err)}`);
      });
    const isAware = vlanAware && problems.length === 0;
    if (address !== undefined && known?.addresses.includes(address) !== true)
      await ip("address", "replace", address, "dev", name);
    await ip("link", "set", "dev", name, "up");
    for (const port of ports) {
      const why = refusedPort(bridge, port, found);
      if (why !== undefined) problems.push(why);
      else if (found.get(port)?.master !== name) await takePort({ name, isAware }, port, deps.exec);
    }
    return problems;
  } catch (err) {
    return [`'${name}' could not be set up: ${messageOf(err)}`];
  }
}

async function takePort(
  { name, isAware }: { readonly name: string; readonly isAware: boolean },
  port: string,
  exec: Exec,
): Promise<void> {
  await exec("ip", ["link", "set", "dev", port, "master", name]);
  await exec("ip", ["link", "set", "dev", port, "up"]);
  // A VLAN-aware bridge lets nothing but its own VLAN through a new port.
  if (isAware) await exec("bridge", ["vlan", "add", "dev", port, "vid", "2-4094"]);
}

function refusedPort(
  { name }: DeclaredBridge,
  port: string,
  found: ReadonlyMap<string, NetInterface>,
): string | undefined {
  const known = found.get(port);
  if (known === undefined) return `port '${port}' of '${name}' does not exist`;
  if (known.master === name) return undefined;
  if (known.master !== undefined) return `port '${port}' of '${name}' belongs to '${known.master}'`;
  const own = known.addresses.filter((each) => !/^(?:fe80|127\.|::1)/i.test(each));
  if (own.length === 0) return undefined;
  return `port '${port}' of '${name}' has ${own.join(", ")}: in a bridge it would lose that, and this machine its network; give the address to the bridge first`;
}

function missing(bridge: DeclaredBridge, found: ReadonlyMap<string, NetInterface>): string[] {
  const known = found.get(bridge.name);
  if (known === undefined) return ["everything"];
  return [
    ...(bridge.vlanAware && known.vlanAware !== true ? ["VLAN filtering"] : []),
    ...(bridge.address !== undefined && !known.addresses.includes(bridge.address) ? [bridge.address] : []),
    ...bridge.ports.filter((port) => found.get(port)?.master !== bridge.name).map((port) => `port ${port}`),
  ];
}

async function interfaces(exec: Exec): Promise<ReadonlyMap<string, NetInterface>> {
  return new Map((await listInterfaces(exec)).map((each) => [each.name, each]));
}

function shape({ address, vlanAware, ports }: DeclaredBridge): string {
  const parts = [
    address,
    vlanAware ? "VLAN-aware" : undefined,
    ports.length === 0 ? "no ports" : ports.join(", "),
  ];
  return `as configured: ${parts.filter((part) => part !== undefined).join(", ")}`;
}
