// More workers for a virtual cluster, or fewer. More takes its room before a node is told, less gives it back when the nodes have
// taken it. Whether they come is known later: a node to which they do not come goes on with those that it had.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { withWorkers, workersIn } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import { background } from "@gpve/kit/background.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { isRefusal } from "../node/is-refusal.ts";
import type { QuotaView } from "../quota/quota-view.ts";
import { requireRoom } from "./cluster-room.ts";
import { requireAllThere } from "./cluster-work.ts";
import { requireRoomOn } from "./placing/named-node.ts";
import { requireWhole } from "./replicas/replica-nodes.ts";

export interface ScaleDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  readonly quotas: Pick<QuotaView, "quotasOn" | "usage">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
  readonly log: Pick<Logger, "info" | "error">;
  /** Aborts when this server ends. */
  readonly shutdown: AbortSignal;
}

/** How many workers, and in which pool; absent: those of the cluster itself. */
export interface ScaleAsk {
  readonly count: number;
  readonly pool?: string | undefined;
}

interface Change {
  readonly pool: string | undefined;
  readonly from: number;
  readonly to: number;
}

interface Told {
  readonly node: string;
  readonly upid: string;
}

/** Answers with the UPID. */
export async function scaleCluster(
  deps: ScaleDeps,
  record: VirtualClusterRecord,
  { count: workers, pool }: ScaleAsk,
  ctx: RequestContext,
  requestId: string,
): Promise<string> {
  const { board, calls, log } = deps;
  const { name, node, tenant } = record;
  const key = keyOf(record);
  requireWhole(board, record, "scale");
  const view = board.get(node);
  if (view !== undefined && workers > workersIn(record.spec, pool))
    requireRoomOn(view, withWorkers(record.spec, pool, workers));
  const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/scale" as const;
  const params = { vcluster: key, tenant, workers, requestId, ...given({ pool }) };
  await requireAllCan(deps, record, { count: workers, pool }, ctx);
  const before = await takeRoom(deps, key, pool, workers);
  const told: Told[] = [];
  try {
    for (const each of nodesOf(record))
      told.push({ node: each, upid: (await calls.call(each, route, params, ctx)).data });
  } catch (err) {
    // Where a node may have begun, what it makes counts.
    if (workers > before && told.length === 0 && isRefusal(err))
      await setWorkers(deps, key, { pool, from: workers, to: before });
    throw err;
  }
  if (workers < before) await setWorkers(deps, key, { pool, from: before, to: workers });
  if (workers > before)
    background(
      log,
      `what follows the workers of virtual cluster ${name}`,
      settle(deps, record, { pool, from: before, to: workers }, told, { ...ctx, requestId }),
    );
  return told[0]?.upid ?? "";
}

/** Of several nodes none is told before each of them has said that it can: one that refuses later leaves it half done. */
async function requireAllCan(
  deps: ScaleDeps,
  record: VirtualClusterRecord,
  asked: ScaleAsk,
  ctx: RequestContext,
): Promise<void> {
  const nodes = nodesOf(record);
  if (nodes.length === 1) return;
  requireAllThere(deps.board, record, "cannot be scaled");
  for (const node of nodes)
    try {
      await askedOf(deps, node, record, asked, ctx);
    } catch (err) {
      // One of an older version does not know the question, and refuses when it is told.
      if (!isAppError(err, "feature.unsupported")) throw err;
    }
}

/** How many workers a node counts now; throws why it cannot have as many as asked for. */
async function askedOf(
  { calls }: Pick<ScaleDeps, "calls">,
  node: string,
  record: VirtualClusterRecord,
  { count: workers, pool }: ScaleAsk,
  ctx: RequestContext,
): Promise<number> {
  const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/scale" as const;
  const asked = { vcluster: keyOf(record), tenant: record.tenant, workers, ...given({ pool }) };
  return (await calls.call(node, route, asked, ctx)).data.workers;
}

/** Where workers do not come to one node, none stay on the others, and their room is given back. What counts too much, because
 * this server ends before or somebody has volumes there, does so until the cluster is scaled again. */
async function settle(
  deps: ScaleDeps,
  record: VirtualClusterRecord,
  { pool, from, to }: Change,
  told: readonly Told[],
  asking: RequestContext,
): Promise<void> {
  const { records, calls, taskEnd, log, shutdown } = deps;
  const { name, tenant } = record;
  const key = keyOf(record);
  const ends = await Promise.allSettled(told.map(({ upid }) => taskEnd(upid, shutdown)));
  const failed = told.filter((_each, at) => ends[at]?.status === "rejected");
  const now = records.collection(vclusterCollection).get(key)?.value;
  if (failed.length === 0 || shutdown.aborted || now === undefined || now.isLeaving === true) return;
  // Somebody has scaled it meanwhile.
  if (workersIn(now.spec, pool) !== to) return;
  const ctx = { ...asking, signal: shutdown };
  let left = from;
  for (const { node } of failed)
    left = Math.min(to, Math.max(left, await askedOf(deps, node, record, { count: to, pool }, ctx)));
  const others = told.filter((each) => !failed.includes(each));
  if (left < to) {
    for (const { node } of others) await askedOf(deps, node, record, { count: left, pool }, ctx);
    for (const { node } of others) {
      const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/scale" as const;
      const requestId = `${asking.requestId}-back`;
      const params = { vcluster: key, tenant, workers: left, requestId, ...given({ pool }) };
      await taskEnd((await calls.call(node, route, params, ctx)).data, shutdown);
    }
  }
  await setWorkers(deps, key, { pool, from: to, to: left });
  log.info({ resource: `vcluster/${key}` }, `virtual cluster ${name} has ${left} workers: more did not come`);
}

/** Answers with how many it had. */
async function takeRoom(
  { records, quotas }: Pick<ScaleDeps, "records" | "quotas">,
  key: string,
  pool: string | undefined,
  workers: number,
): Promise<number> {
  return records.transact((tx) => {
    const now = tx.get(vclusterCollection, key)?.value;
    if (now === undefined) throw new AppError("object.not_found", `there is no VirtualCluster '${key}'`);
    const { name, spec, tenant } = now;
    const before = workersIn(spec, pool);
    if (workers <= before) return before;
    const after = withWorkers(spec, pool, workers);
    const what = `give virtual cluster ${name} ${workers} workers`;
    requireRoom(tx, quotas, { what, tenant, before: spec, after });
    tx.put(vclusterCollection, key, { ...now, spec: after });
    return before;
  });
}

/** Where nobody else has changed it meanwhile. */
async function setWorkers(
  { records }: Pick<ScaleDeps, "records">,
  key: string,
  { pool, from, to }: Change,
): Promise<void> {
  await records.transact((tx) => {
    const now = tx.get(vclusterCollection, key)?.value;
    if (now === undefined || workersIn(now.spec, pool) !== from) return;
    tx.put(vclusterCollection, key, { ...now, spec: withWorkers(now.spec, pool, to) });
  });
}
