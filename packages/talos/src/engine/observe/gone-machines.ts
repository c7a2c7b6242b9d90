// Machines of which no guest is shown while etcd or Kubernetes still have them: they are gone, or they are only not shown.
import { given } from "@gpve/contracts/given.ts";
import type { Cluster } from "../../cluster/cluster.ts";
import { type Pinned, roleOf } from "../../cluster/machine.ts";
import { etcdHealth } from "../quorum.ts";
import { configured, nodeOf, type SeenMachine, type World } from "../world.ts";

/** A member of etcd or a node. */
export function isToldOf(world: World, seen: SeenMachine): boolean {
  const isMember = etcdHealth(world)?.members.some(({ hostname }) => hostname === seen.hostname) === true;
  return isMember || nodeOf(world, seen) !== undefined;
}

/** Those that were made once and are neither in the file nor shown; never under a name that another one has now. */
export function goneMachines(
  { metadata, nodes }: Cluster,
  formerly: Readonly<Record<string, Pinned>>,
  world: World,
): readonly SeenMachine[] {
  const taken = new Set(
    [...world.machines.values()].flatMap((seen) => [
      seen.hostname,
      configured(seen)?.network?.announced ?? seen.hostname,
    ]),
  );
  return Object.entries(formerly)
    .filter(([name]) => !world.machines.has(name))
    .map(([name, { hostname, addresses }]): SeenMachine => ({
      name,
      hostname: hostname ?? nodes[name]?.hostname ?? name,
      role: roleOf(metadata.name, name),
      guest: undefined,
      talos: { state: "off" },
      ...given({ address: addresses[0] }),
    }))
    .filter((seen) => !taken.has(seen.hostname) && isToldOf(world, seen));
}
