// Other bounds for what a cluster that is there may have. While its nodes are told it counts for its tenant with the larger of both.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { type ClusterQuota, shownClusterQuota, withQuota } from "@gpve/domain/vcluster/cluster-quota.ts";
import {
  heldSpec,
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { isRefusal } from "../node/is-refusal.ts";
import type { QuotaView } from "../quota/quota-view.ts";
import { requireRoom } from "./cluster-room.ts";
import { volumeBytesOf } from "./volumes/volume-bytes.ts";

export interface SetQuotaDeps {
  readonly records: Records;
  readonly board: Pick<NodeBoard, "get">;
  readonly calls: Pick<NodeCalls, "call">;
  readonly quotas: Pick<QuotaView, "quotasOn" | "usage">;
}

export async function setQuota(
  deps: SetQuotaDeps,
  record: VirtualClusterRecord,
  quota: ClusterQuota,
  ctx: RequestContext,
): Promise<void> {
  const { tenant, spec } = record;
  // What bounds whoever uses it is for who may make one to say.
  ctx.access.require(`/pool/${tenant}`, ["VC.Allocate"]);
  const { volumeBytes = spec.volumeBytes } = quota;
  const both = volumeBytes === undefined ? undefined : Math.max(volumeBytes, spec.volumeBytes ?? 0);
  await write(deps, record, { ...quota, ...given({ volumeBytes: both }) });
  const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/quota" as const;
  const held = given({ volumeBytes: record.volumeRoom });
  const asked = { vcluster: keyOf(record), tenant, quota: { ...shownClusterQuota({ ...held, ...quota }) } };
  const told: string[] = [];
  for (const node of nodesOf(record)) {
    try {
      await deps.calls.call(node, route, asked, ctx);
      told.push(node);
    } catch (err) {
      // Where a node may have it, it counts.
      if (told.length === 0 && isRefusal(err)) await write(deps, record, spec);
      throw err;
    }
  }
  await write(deps, record, quota);
}

async function write(
  { records, board, quotas }: SetQuotaDeps,
  record: VirtualClusterRecord,
  quota: ClusterQuota,
): Promise<void> {
  const key = keyOf(record);
  const { name, tenant } = record;
  await records.transact((tx) => {
    const now = tx.get(vclusterCollection, key)?.value;
    if (now === undefined) throw new AppError("object.not_found", `there is no VirtualCluster '${name}'`);
    const { volumeBytes, workerQuota } = quota;
    const after = withQuota(now.spec, given({ volumeBytes, workerQuota }));
    const what = `give virtual cluster ${name} another quota`;
    const hasBytes = volumeBytesOf(board, now);
    const { volumeRoom, ...kept } = now;
    // One that has a bound of its own follows its claims no more.
    const next = { ...kept, spec: after, ...(after.volumeBytes === undefined ? given({ volumeRoom }) : {}) };
    const [before, then] = [heldSpec(now), heldSpec(next)];
    requireRoom(tx, quotas, { what, tenant, before, after: then, hasBytes });
    tx.put(vclusterCollection, key, next);
  });
}
