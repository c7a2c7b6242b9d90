// Nodes are told of a cluster after it is written down, and may take their time. Whoever deletes it meanwhile asks nodes that have
// nothing of it yet, and what they make then nobody would know of: who told them looks again.
import { leftClusterCollection, leftClusterId } from "@gpve/domain/vcluster/standby/left-cluster.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Asking } from "../../node/call-agent.ts";
import { type RemoveDeps, removeFrom } from "./remove-cluster.ts";

/** Those of these nodes, which were told, that are not to have it any more give it up. Answers with what it is now; undefined = it
 * is to go, or gone. */
export async function leaveUnwanted(
  deps: RemoveDeps,
  record: VirtualClusterRecord,
  told: readonly string[],
  ctx: Asking,
): Promise<VirtualClusterRecord | undefined> {
  const { records } = deps;
  const { tenant } = record;
  const key = keyOf(record);
  // Another server may have deleted it.
  await records.fresh({ signal: ctx.signal });
  const found = records.collection(vclusterCollection).get(key)?.value;
  // Whoever deletes it writes that down before he asks its nodes.
  const now = found?.isLeaving === true ? undefined : found;
  const unwanted = now === undefined ? told : told.filter((node) => !nodesOf(now).includes(node));
  for (const node of unwanted.toReversed())
    try {
      await removeFrom(deps, node, record, {}, ctx);
    } catch (err) {
      ignore(err, "it goes with the cluster, or when its node is back");
      await records.transact((tx) => {
        if (tx.get(vclusterCollection, key) === undefined)
          tx.put(leftClusterCollection, leftClusterId({ node, key }), { node, key, tenant });
      });
    }
  return now;
}
