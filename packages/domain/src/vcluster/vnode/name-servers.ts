// Who is asked for names outside of a cluster. Pods ask for themselves, so it is only whom they reach: nobody where they may not go
// out, and no server on the node itself.
import { cidrsOverlap, readCidr } from "../cidr.ts";
import { NOT_OUTSIDE } from "./outside-networks.ts";
import type { VirtualClusterSpec } from "../vcluster-spec.ts";

export interface NodeNameServers {
  /** As the node lists them. */
  readonly listed: readonly string[];
  /** The node's addresses. */
  readonly own: readonly string[];
}

export function nameServersFor(
  { egress }: Pick<VirtualClusterSpec, "egress">,
  node: () => NodeNameServers,
): readonly string[] {
  return egress === "nat" ? reachableNameServers(node()) : [];
}

export function reachableNameServers({ listed, own }: NodeNameServers): readonly string[] {
  const closed = ["0.0.0.0/8", ...NOT_OUTSIDE].flatMap((network) => readCidr(network) ?? []);
  return [...new Set(listed)].filter((address) => {
    // The networks of clusters are IPv4.
    const cidr = readCidr(`${address}/32`);
    return cidr !== undefined && !own.includes(address) && !closed.some((each) => cidrsOverlap(each, cidr));
  });
}

/** For the programs of a worker, and for pods that have its settings. */
export function resolvConf(spec: Pick<VirtualClusterSpec, "egress">, node: () => NodeNameServers): string {
  return nameServersFor(spec, node)
    .map((server) => `nameserver ${server}\n`)
    .join("");
}
