// What follows when a cluster's number of workers has been changed. Where workers do not come to one node, none stay on the others, and
// their room is given back; where they do not leave one, the others have as many again, and what is there counts.
import { isAppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import {
  type ClusterScale,
  scaleCollection,
  scaleId,
  type ToldNode,
} from "@gpve/domain/vcluster/vnode/cluster-scale.ts";
import {
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { workersIn } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { asSystem } from "../../node/as-system.ts";
import type { Asking, NodeCalls } from "../../node/call-agent.ts";
import { isRefusal } from "../../node/is-refusal.ts";
import { askedOf, putWorkers } from "./scale-cluster.ts";

export interface SettleScaleDeps {
  readonly records: Records;
  readonly calls: Pick<NodeCalls, "call">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
  readonly log: Pick<Logger, "info">;
  readonly newRequestId: () => string;
}

/** Resolves when it is forgotten. Where it throws it is to be done again, and what counts wrongly does so until then. Nodes that could
 * not be told to have as many again as one that kept its workers have fewer until the next scale: that counts in any case. */
export async function settleScale(
  deps: SettleScaleDeps,
  scale: ClusterScale,
  signal: AbortSignal,
): Promise<void> {
  const { records, taskEnd, log, newRequestId } = deps;
  const { key, pool, from, to, requestId } = scale;
  const ctx = asSystem({ work: "vcluster-scale", requestId, signal });
  const begun = counting(records, scale);
  if (begun === undefined) {
    await forget(records, scale);
    return;
  }
  const { told, refusing } = await toldAll(deps, begun, scale, ctx);
  const ends = await Promise.allSettled(told.map(({ upid }) => taskEnd(upid, signal)));
  signal.throwIfAborted();
  const failed = told.flatMap(({ node }, at) => (ends[at]?.status === "rejected" ? [node] : []));
  const record = counting(records, scale);
  const behind = [...failed, ...refusing];
  if (record === undefined || behind.length === 0) {
    await forget(records, scale);
    return;
  }
  const [least, most] = [Math.min(from, to), Math.max(from, to)];
  let left = least;
  for (const node of behind) {
    const has = await askedOf(deps, node, record, { count: most, pool }, ctx).catch((err: unknown) => {
      // An agent of an older release does not tell: it has what it had.
      if (isAppError(err, "feature.unsupported")) return from;
      throw err;
    });
    left = Math.min(most, Math.max(left, has));
  }
  // What comes counts before it comes, and what goes when it is gone.
  if (left > to) await records.transact((tx) => putWorkers(tx, key, { pool, from: to, to: left }));
  if (left !== to) {
    const others = told.map(({ node }) => node).filter((node) => !failed.includes(node));
    for (const node of others) await askedOf(deps, node, record, { count: left, pool }, ctx);
    const back = { ...scale, to: left, requestId: newRequestId() };
    for (const node of others) await taskEnd(await tell(deps, node, record, back, ctx), signal);
  }
  await forget(records, scale, (tx) => {
    if (left < to) putWorkers(tx, key, { pool, from: to, to: left });
  });
  const why = from < to ? "more did not come" : "others did not go";
  log.info({ resource: `vcluster/${key}` }, `virtual cluster ${record.name} has ${left} workers: ${why}`);
}

/** undefined = it is about nothing that is still so. */
function counting(records: Records, { key, pool, to }: ClusterScale): VirtualClusterRecord | undefined {
  const record = records.collection(vclusterCollection).get(key)?.value;
  const isStill = record !== undefined && record.isLeaving !== true && workersIn(record.spec, pool) === to;
  return isStill ? record : undefined;
}

/** Those that the server has not told which began it are told now: it may have ended in between. */
async function toldAll(
  deps: SettleScaleDeps,
  record: VirtualClusterRecord,
  scale: ClusterScale,
  ctx: Asking,
): Promise<{ readonly told: readonly ToldNode[]; readonly refusing: readonly string[] }> {
  const nodes = nodesOf(record);
  const told = scale.told.filter(({ node }) => nodes.includes(node));
  const refusing: string[] = [];
  for (const node of nodes.filter((each) => told.every((known) => known.node !== each)))
    try {
      told.push({ node, upid: await tell(deps, node, record, scale, ctx) });
    } catch (err) {
      if (!isRefusal(err)) throw err;
      refusing.push(node);
    }
  return { told, refusing };
}

async function tell(
  { calls }: SettleScaleDeps,
  node: string,
  { tenant }: VirtualClusterRecord,
  { key, pool, to: workers, requestId }: ClusterScale,
  ctx: Asking,
): Promise<string> {
  const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/scale" as const;
  const params = { vcluster: key, tenant, workers, requestId, ...given({ pool }) };
  return (await calls.call(node, route, params, { ...ctx, requestId })).data;
}

async function forget(
  records: Records,
  scale: ClusterScale,
  also: (tx: Tx) => void = () => undefined,
): Promise<void> {
  const id = scaleId(scale);
  await records.transact((tx) => {
    also(tx);
    if (tx.get(scaleCollection, id)?.value.requestId === scale.requestId) tx.delete(scaleCollection, id);
  });
}
