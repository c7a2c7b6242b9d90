// Which node of the platform runs which machine: those of one group apart, memory balanced over all.
import type { Machine, Pinned } from "./machine.ts";
import type { Cluster } from "./cluster.ts";

export interface Place {
  readonly provider: string;
  readonly host: string;
}

export function placeMachines(
  cluster: Pick<Cluster, "providers" | "nodes">,
  members: readonly Pick<Machine, "name" | "pool" | "size">[],
  pinned: Readonly<Record<string, Pinned>>,
): ReadonlyMap<string, Place> {
  const hosts = cluster.providers.flatMap(({ name, nodes }) =>
    nodes.map((host) => ({ provider: name, host, memoryMiB: 0, ofPool: new Map<string, number>() })),
  );
  const places = new Map<string, Place>();
  const put = ({ name, pool, size }: (typeof members)[number], host: (typeof hosts)[number]): void => {
    host.memoryMiB += size.memoryMiB;
    host.ofPool.set(pool, (host.ofPool.get(pool) ?? 0) + 1);
    places.set(name, { provider: host.provider, host: host.host });
  };
  for (const member of members) {
    const earlier = pinned[member.name];
    const asked = cluster.nodes[member.name]?.host ?? earlier?.host;
    const known = hosts.find(
      ({ host, provider }) => host === asked && (earlier?.host !== asked || provider === earlier?.provider),
    );
    if (known !== undefined) put(member, known);
  }
  for (const member of members) {
    if (places.has(member.name)) continue;
    const count = (host: (typeof hosts)[number]): number => host.ofPool.get(member.pool) ?? 0;
    const [best] = hosts.toSorted((a, b) => count(a) - count(b) || a.memoryMiB - b.memoryMiB);
    if (best !== undefined) put(member, best);
  }
  return places;
}

/** Control planes that share a node of the platform with one before them, where the file wants them apart. */
export function crowdedControlPlanes(
  { placement }: Pick<Cluster, "placement">,
  machines: readonly Machine[],
): readonly (Pick<Machine, "name" | "host"> & { readonly beside: string })[] {
  if (placement.spread !== "required") return [];
  const control = machines.filter(({ role }) => role === "controlplane");
  return control.flatMap(({ name, host, provider }, at) => {
    const other = control.slice(0, at).find((each) => each.host === host && each.provider === provider);
    return other === undefined ? [] : [{ name, host, beside: other.name }];
  });
}
