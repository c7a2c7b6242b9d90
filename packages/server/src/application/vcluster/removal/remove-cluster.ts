// The end of a virtual cluster: on its nodes, and then in the records.
import { AppError } from "@gpve/contracts/errors.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import { moveCollection, moveId } from "@gpve/domain/guest/guest-move.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { leftClusterCollection, leftClusterId } from "@gpve/domain/vcluster/standby/left-cluster.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { standbyLineId } from "@gpve/domain/vcluster/standby/standby.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../../node/call-agent.ts";
import { nodeRecords } from "../../node/collections.ts";
import { isRefusal } from "../../node/is-refusal.ts";
import { forgetDecisions } from "../placing/cluster-decisions.ts";
import { requireRemovable } from "./require-removable.ts";

export interface RemoveDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
}

interface HowRemoved {
  readonly force?: boolean;
  readonly keepVolumes?: boolean;
}

/** Resolves when nothing of it is left, but for what nodes have that it has left before and that are away: that goes when they are
 * back. Nodes that are no members any more are not asked: nobody can. `force`: what its persistent volumes hold goes too. */
export async function removeCluster(
  deps: RemoveDeps,
  wanted: VirtualClusterRecord,
  force: boolean,
  ctx: RequestContext,
): Promise<void> {
  const { records } = deps;
  const key = keyOf(wanted);
  const nodes = nodesOf(wanted).filter((node) => isMember(deps, node));
  const older = await requireRemovable(deps, wanted, { nodes, force }, ctx);
  const record = await leave(deps, wanted);
  let isGoing = wanted.isLeaving === true;
  let away: readonly string[];
  try {
    away = await removeLeft(deps, record, ctx);
    // Its control plane last.
    for (const node of nodes.toReversed()) {
      const upid = await tell(deps, node, record, force && !older.has(node) ? { force } : {}, ctx).catch(
        (err: unknown) => {
          if (isControl(record, node) && !isRefusal(err)) isGoing = true;
          throw err;
        },
      );
      if (isControl(record, node)) isGoing = true;
      await deps.taskEnd(upid, ctx.signal);
    }
  } catch (err) {
    // As long as no control plane was told to go it serves, and is looked after as before.
    if (!isGoing) await stay(deps, key);
    throw err;
  }
  const now = records.collection(vclusterCollection).get(key)?.value ?? record;
  await forgetStandby(deps, now, ctx);
  await records.transact((tx) => {
    const { standby } = tx.get(vclusterCollection, key)?.value ?? {};
    const note = moveId(0, standbyLineId(key, standby?.generation ?? 0));
    if (tx.get(moveCollection, note) !== undefined) tx.delete(moveCollection, note);
    tx.delete(vclusterCollection, key);
    forgetDecisions(tx, key);
    for (const node of away)
      tx.put(leftClusterCollection, leftClusterId({ node, key }), { node, key, tenant: record.tenant });
  });
}

export async function removeFrom(
  deps: RemoveDeps,
  node: string,
  record: VirtualClusterRecord,
  how: HowRemoved,
  ctx: RequestContext,
): Promise<void> {
  await deps.taskEnd(await tell(deps, node, record, how, ctx), ctx.signal);
}

/** Answers with the UPID. */
async function tell(
  { calls }: RemoveDeps,
  node: string,
  record: VirtualClusterRecord,
  how: HowRemoved,
  ctx: RequestContext,
): Promise<string> {
  const route = "DELETE /gpve/nodes/{node}/vclusters/{vcluster}" as const;
  // Another than the one that may have made it: to a node one id is one piece of work.
  const { tenant } = record;
  const asked = { vcluster: keyOf(record), tenant, requestId: `${ctx.requestId}-delete`, ...how };
  return (await calls.call(node, route, asked, ctx)).data;
}

/** What nodes have that are none of its own any more; answers with those that are away. What volumes had there is put aside, as when
 * such a node comes back by itself. */
async function removeLeft(
  deps: RemoveDeps,
  record: VirtualClusterRecord,
  ctx: RequestContext,
): Promise<readonly string[]> {
  const own = nodesOf(record);
  const left = [record.formerly ?? [], record.abandoned ?? []].flat();
  const away: string[] = [];
  for (const node of new Set(left)) {
    if (own.includes(node) || !isMember(deps, node)) continue;
    if (deps.board.get(node)?.health === "online")
      try {
        await removeFrom(deps, node, record, { keepVolumes: true }, ctx);
        continue;
      } catch (err) {
        if (!(err instanceof AgentUnreachable)) throw err;
      }
    away.push(node);
  }
  return away;
}

function isControl({ spread, node: home }: VirtualClusterRecord, node: string): boolean {
  return node === home || hasReplicas(spread);
}

/** One that was removed from the cluster by force may have left some of its clusters behind. */
function isMember({ records, board }: RemoveDeps, node: string): boolean {
  return records.collection(nodeRecords).get(node) !== undefined || board.get(node) !== undefined;
}

/** Its replicas are not to be replaced while they go, and nobody begins to follow it. Answers with what it is from now on; throws
 * where its nodes are others than those that were asked. */
async function leave({ records }: RemoveDeps, asked: VirtualClusterRecord): Promise<VirtualClusterRecord> {
  const { name } = asked;
  const key = keyOf(asked);
  return records.transact((tx) => {
    const now = tx.get(vclusterCollection, key)?.value;
    if (now === undefined) throw new AppError("object.not_found", `there is no VirtualCluster '${name}'`);
    if (nodesOf(now).join() !== nodesOf(asked).join())
      throw new AppError(
        "object.conflict",
        `virtual cluster '${name}' has come to other nodes meanwhile: try again`,
      );
    const next = { ...now, isLeaving: true } as const;
    tx.put(vclusterCollection, key, next);
    return next;
  });
}

async function stay({ records }: RemoveDeps, key: string): Promise<void> {
  await records.transact((tx) => {
    const found = tx.get(vclusterCollection, key)?.value;
    if (found === undefined) return;
    const { isLeaving: _not, ...now } = found;
    tx.put(vclusterCollection, key, now);
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
