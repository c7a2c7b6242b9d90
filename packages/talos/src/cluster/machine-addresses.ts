// Addresses of machines: offsets into the network, around what is reserved.
import { AppError } from "@gpve/contracts/errors.ts";
import { isIPv6 } from "node:net";
import type { Machine, Pinned } from "./machine.ts";
import { addressAt, canonicalAddress, isInRange } from "./networks.ts";
import type { Cluster } from "./cluster.ts";

export function takeAddresses(
  cluster: Pick<Cluster, "network" | "endpoint" | "nodes">,
  members: readonly Pick<Machine, "name" | "role">[],
  pinned: Readonly<Record<string, Pinned>>,
): ReadonlyMap<string, readonly string[]> {
  const { network } = cluster;
  const networks = [network.nodeCIDR, ...(network.nodeCIDR6 === null ? [] : [network.nodeCIDR6])];
  const found = new Map<string, string[]>(members.map(({ name }) => [name, []]));
  for (const cidr of networks) {
    const chosen = ofNetwork(cluster, members, pinned, cidr);
    for (const [name, address] of chosen) found.get(name)?.push(address);
  }
  return found;
}

function ofNetwork(
  { network, endpoint, nodes }: Pick<Cluster, "network" | "endpoint" | "nodes">,
  members: readonly Pick<Machine, "name" | "role">[],
  pinned: Readonly<Record<string, Pinned>>,
  cidr: string,
): ReadonlyMap<string, string> {
  const isV6 = cidr.includes(":");
  const ofFamily = (address: string | undefined): boolean =>
    address !== undefined && isIPv6(address) === isV6;
  const fixed = new Map<string, string>();
  for (const { name } of members) {
    const own = nodes[name]?.ip;
    const address = ofFamily(own) ? own : pinned[name]?.addresses.find(ofFamily);
    if (address !== undefined) fixed.set(name, address);
  }
  const taken = new Set(
    [
      network.gateway,
      endpoint.vip,
      endpoint.front?.vip,
      endpoint.loadBalancer?.address,
      ...network.ipam.reserve.filter((entry) => !entry.includes("-")),
      ...fixed.values(),
    ]
      .filter((address): address is string => address !== undefined)
      .map(canonicalAddress),
  );
  const ranges = network.ipam.reserve.filter((entry) => entry.includes("-"));
  // What was taken stays so: nobody begins to look before where the last one of his role found something.
  const next = { controlplane: network.ipam.controlPlaneOffset, worker: network.ipam.workerOffset };
  return new Map(
    members.map(({ name, role }): [string, string] => {
      const known = fixed.get(name);
      if (known !== undefined) return [name, known];
      for (let offset = next[role]; ; offset += 1) {
        const address = addressAt(cidr, offset);
        if (address === undefined) {
          throw new AppError(
            "config.invalid",
            `no address is left for ${name} in ${cidr}; use a larger network or smaller offsets in network.ipam`,
            { data: { finding: "addresses-exhausted" } },
          );
        }
        if (taken.has(canonicalAddress(address)) || ranges.some((range) => isInRange(range, address)))
          continue;
        taken.add(canonicalAddress(address));
        next[role] = offset + 1;
        return [name, address];
      }
    }),
  );
}

/** Whether a machine gets this address of its own from a DHCP server, which has to know it. */
export function isAsked({ addressing }: Pick<Cluster["network"], "addressing">, address: string): boolean {
  return addressing === "dhcp" && !isIPv6(address);
}
