// The end of a virtual cluster: on its nodes, and then in the records.
import { moveCollection, moveId } from "@gpve/domain/guest/guest-move.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { standbyLineId } from "@gpve/domain/vcluster/standby/standby.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { nodeRecords } from "../node/collections.ts";
import { requireRemovable } from "./require-removable.ts";

export interface RemoveDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
}

/** Resolves when nothing of it is left. Nodes that are no members any more are not asked: nobody can. `force`: what its
 * persistent volumes hold goes too. */
export async function removeCluster(
  deps: RemoveDeps,
  record: VirtualClusterRecord,
  force: boolean,
  ctx: RequestContext,
): Promise<void> {
  const { records } = deps;
  const key = keyOf(record);
  const nodes = nodesOf(record).filter((node) => isMember(deps, node));
  const older = await requireRemovable(deps, record, { nodes, force }, ctx);
  await leave(deps, key);
  const left = [record.formerly ?? [], record.abandoned ?? []].flat();
  for (const node of left)
    if (isMember(deps, node) && !nodes.includes(node))
      await removeFrom(deps, node, record, { keepVolumes: true }, ctx);
  // Its control plane last.
  for (const node of nodes.toReversed())
    await removeFrom(deps, node, record, force && !older.has(node) ? { force } : {}, ctx);
  const now = records.collection(vclusterCollection).get(key)?.value ?? record;
  await forgetStandby(deps, now, ctx);
  await records.transact((tx) => {
    const { standby } = tx.get(vclusterCollection, key)?.value ?? {};
    const note = moveId(0, standbyLineId(key, standby?.generation ?? 0));
    if (tx.get(moveCollection, note) !== undefined) tx.delete(moveCollection, note);
    tx.delete(vclusterCollection, key);
  });
}

export async function removeFrom(
  { calls, taskEnd }: RemoveDeps,
  node: string,
  record: VirtualClusterRecord,
  how: { readonly force?: boolean; readonly keepVolumes?: boolean },
  ctx: RequestContext,
): Promise<void> {
  const route = "DELETE /gpve/nodes/{node}/vclusters/{vcluster}" as const;
  // Another than the one that may have made it: to a node one id is one piece of work.
  const { tenant } = record;
  const asked = { vcluster: keyOf(record), tenant, requestId: `${ctx.requestId}-delete`, ...how };
  const { data } = await calls.call(node, route, asked, ctx);
  await taskEnd(data, ctx.signal);
}

/** One that was removed from the cluster by force may have left some of its clusters behind. */
function isMember({ records, board }: RemoveDeps, node: string): boolean {
  return records.collection(nodeRecords).get(node) !== undefined || board.get(node) !== undefined;
}

/** Its replicas are not to be replaced while they go, and nobody begins to follow it. */
async function leave({ records }: RemoveDeps, key: string): Promise<void> {
  await records.transact((tx) => {
    const now = tx.get(vclusterCollection, key)?.value;
    if (now !== undefined) tx.put(vclusterCollection, key, { ...now, isLeaving: true });
  });
}

/** Its standby is another's to remove too: servers do so as soon as they hear of it. */
async function forgetStandby(
  { calls }: RemoveDeps,
  record: VirtualClusterRecord,
  ctx: RequestContext,
): Promise<void> {
  const { tenant, standby } = record;
  if (standby === undefined) return;
  const route = "DELETE /gpve/nodes/{node}/vcluster-standbys/{vcluster}" as const;
  await calls
    .call(standby.node, route, { vcluster: keyOf(record), tenant }, ctx)
    .catch((err: unknown) => ignore(err, "what is left there goes when its node is back"));
}
