// More workers for a virtual cluster, or fewer. More takes its room before a node is told, less gives it back when the nodes have
// taken it. Whether they come and go is known later: settle-scale.ts.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import {
  type ClusterScale,
  scaleCollection,
  scaleId,
  type ToldNode,
} from "@gpve/domain/vcluster/vnode/cluster-scale.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { withWorkers, workersIn } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { Asking, NodeCalls } from "../../node/call-agent.ts";
import { isRefusal } from "../../node/is-refusal.ts";
import type { QuotaView } from "../../quota/quota-view.ts";
import { requireRoom } from "../cluster-room.ts";
import { requireAllThere } from "../cluster-work.ts";
import { requireRoomOn } from "../placing/named-node.ts";
import { requireWhole } from "../replicas/replica-nodes.ts";

export interface ScaleDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  readonly quotas: Pick<QuotaView, "quotasOn" | "usage">;
}

/** How many workers, and in which pool; absent: those of the cluster itself. */
export interface ScaleAsk {
  readonly count: number;
  readonly pool?: string | undefined;
}

/** Answers with the UPID. */
export async function scaleCluster(
  deps: ScaleDeps,
  record: VirtualClusterRecord,
  { count: workers, pool }: ScaleAsk,
  ctx: RequestContext,
  requestId: string,
): Promise<string> {
  const { board, calls } = deps;
  const { node, tenant } = record;
  const key = keyOf(record);
  requireWhole(board, record, "scale");
  const view = board.get(node);
  if (view !== undefined && workers > workersIn(record.spec, pool))
    requireRoomOn(view, withWorkers(record.spec, pool, workers));
  const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/scale" as const;
  const params = { vcluster: key, tenant, workers, requestId, ...given({ pool }) };
  await requireAllCan(deps, record, { count: workers, pool }, ctx);
  const asked = { key, to: workers, requestId, ...given({ pool }) };
  const { before, former } = await takeRoom(deps, asked);
  const scale = { ...asked, from: before };
  const told: ToldNode[] = [];
  try {
    for (const each of nodesOf(record))
      told.push({ node: each, upid: (await calls.call(each, route, params, ctx)).data });
  } catch (err) {
    // Where a node may have begun, what it makes counts.
    if (workers > before && told.length === 0 && isRefusal(err)) await giveBack(deps, scale, former);
    throw err;
  }
  if (workers !== before) await noteTold(deps, { ...scale, told });
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
export async function askedOf(
  { calls }: Pick<ScaleDeps, "calls">,
  node: string,
  record: VirtualClusterRecord,
  { count: workers, pool }: ScaleAsk,
  ctx: Asking,
): Promise<number> {
  const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/scale" as const;
  const asked = { vcluster: keyOf(record), tenant: record.tenant, workers, ...given({ pool }) };
  return (await calls.call(node, route, asked, ctx)).data.workers;
}

/** Answers with how many it had, and with what was known of a change before that had not ended. */
async function takeRoom(
  { records, quotas }: Pick<ScaleDeps, "records" | "quotas">,
  { key, pool, to, requestId }: Omit<ClusterScale, "from" | "told">,
): Promise<{ readonly before: number; readonly former: ClusterScale | undefined }> {
  return records.transact((tx) => {
    const now = tx.get(vclusterCollection, key)?.value;
    if (now === undefined) throw new AppError("object.not_found", `there is no VirtualCluster '${key}'`);
    const { name, spec, tenant } = now;
    const before = workersIn(spec, pool);
    const id = scaleId({ key, ...given({ pool }) });
    const former = tx.get(scaleCollection, id)?.value;
    if (to <= before) return { before, former };
    const after = withWorkers(spec, pool, to);
    const what = `give virtual cluster ${name} ${to} workers`;
    requireRoom(tx, quotas, { what, tenant, before: spec, after });
    tx.put(vclusterCollection, key, { ...now, spec: after });
    tx.put(scaleCollection, id, { key, from: before, to, requestId, told: [], ...given({ pool }) });
    return { before, former };
  });
}

/** No node has it: it is as before. */
async function giveBack(
  { records }: Pick<ScaleDeps, "records">,
  scale: Omit<ClusterScale, "told">,
  former: ClusterScale | undefined,
): Promise<void> {
  const { key, pool, from, to, requestId } = scale;
  await records.transact((tx) => {
    const id = scaleId(scale);
    if (tx.get(scaleCollection, id)?.value.requestId !== requestId) return;
    if (former === undefined) tx.delete(scaleCollection, id);
    else tx.put(scaleCollection, id, former);
    putWorkers(tx, key, { pool, from: to, to: from });
  });
}

/** Nodes have begun. Less counts from now on. */
async function noteTold({ records }: Pick<ScaleDeps, "records">, scale: ClusterScale): Promise<void> {
  const { key, pool, from, to, requestId } = scale;
  await records.transact((tx) => {
    const id = scaleId(scale);
    // Somebody has scaled it again meanwhile.
    if (to > from && tx.get(scaleCollection, id)?.value.requestId !== requestId) return;
    if (to < from) putWorkers(tx, key, { pool, from, to });
    tx.put(scaleCollection, id, scale);
  });
}

/** Where nobody else has changed it meanwhile. */
export function putWorkers(
  tx: Tx,
  key: string,
  { pool, from, to }: { readonly pool: string | undefined; readonly from: number; readonly to: number },
): void {
  const now = tx.get(vclusterCollection, key)?.value;
  if (now === undefined || workersIn(now.spec, pool) !== from) return;
  tx.put(vclusterCollection, key, { ...now, spec: withWorkers(now.spec, pool, to) });
}
