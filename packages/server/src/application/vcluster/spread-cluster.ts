// Clusters on several nodes: their network, and what those without the control plane are told.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import {
  FIRST_SHARED_NETWORK,
  LAST_SHARED_NETWORK,
  type OverlayNode,
} from "@gpve/domain/vcluster/overlay.ts";
import type { nodeWords } from "@gpve/domain/vcluster/cluster-key.ts";
import type { VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { NodeCalls } from "../node/call-agent.ts";

type Spread = NonNullable<VirtualClusterRecord["spread"]>;

/** Throws where others could not reach its workers by it. */
export function overlayAddress(each: OverlayNode): OverlayNode {
  if (/^\d+\.\d+\.\d+\.\d+$/.test(each.address) && !each.address.startsWith("127.")) return each;
  throw new AppError(
    "feature.unsupported",
    `spec.scheduling.spread: node ${each.node} is known by '${each.address}', which is no IPv4 address that other nodes reach its workers by`,
  );
}

/** One that no other cluster on several nodes has. */
export function freeNetwork(all: readonly VirtualClusterRecord[]): number {
  const taken = new Set(all.flatMap(({ spread }) => spread?.network ?? []));
  for (let network = FIRST_SHARED_NETWORK; network <= LAST_SHARED_NETWORK; network++)
    if (!taken.has(network)) return network;
  throw new AppError("capacity.exceeded", "all networks for virtual clusters on several nodes are taken");
}

/** Tells every node of it, the one with the control plane first; what signs goes from that one to the others. Answers with the
 * UPID there. */
export async function makeEverywhere(
  calls: Pick<NodeCalls, "call">,
  { spec, ...words }: ReturnType<typeof nodeWords> & { readonly spec: Fields },
  { network, nodes }: Spread,
  ctx: RequestContext,
): Promise<string> {
  const { vcluster, tenant } = words;
  const route = "POST /gpve/nodes/{node}/vclusters" as const;
  const [home, ...others] = nodes.map(({ node }) => node);
  const asked = (at: number) => ({
    ...words,
    requestId: ctx.requestId,
    network,
    overlay: { nodes: nodes.map((each) => ({ ...each })), at },
  });
  const begun = await calls.call(home ?? "", route, { ...asked(0), spec }, ctx);
  const authority = "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority" as const;
  const { data } = await calls.call(home ?? "", authority, { vcluster, tenant }, ctx);
  // Workers may be older than their API server, never newer: the one that it has.
  const same = { ...spec, kubernetesVersion: data.version };
  for (const [index, node] of others.entries())
    await calls.call(node, route, { ...asked(index + 1), spec: same, secrets: data.secrets }, ctx);
  return begun.data;
}
