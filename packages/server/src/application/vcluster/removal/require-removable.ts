// Whether a virtual cluster can be deleted, asked of all of its nodes before any of it goes. What they told last may be seconds old,
// and a volume that was made since would be lost.
import { isAppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { keyOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { requireNoVolumes } from "@gpve/domain/vcluster/vnode/volumes-in-use.ts";
import type { NodeCalls } from "../../node/call-agent.ts";
import { runtimeOn } from "../replicas/replica-nodes.ts";

export interface RemovableDeps {
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
}

/** Answers with those of an older version, which do not understand `force` and do not look themselves. Throws where a node does
 * not answer too. */
export async function requireRemovable(
  { board, calls }: RemovableDeps,
  record: VirtualClusterRecord,
  { nodes, force }: { readonly nodes: readonly string[]; readonly force: boolean },
  ctx: RequestContext,
): Promise<ReadonlySet<string>> {
  const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/volumes" as const;
  const vcluster = keyOf(record);
  const older = new Set<string>();
  const counts = nodes.map(async (node) => {
    try {
      return (await calls.call(node, route, { vcluster, tenant: record.tenant }, ctx)).data.length;
    } catch (err) {
      if (!isAppError(err, "feature.unsupported")) throw err;
      older.add(node);
      const vnodes = runtimeOn(board, node, vcluster)?.vnodes ?? [];
      return vnodes.reduce((sum, { volumes = 0 }) => sum + volumes, 0);
    }
  });
  const volumes = (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  if (!force) requireNoVolumes(record.name, volumes);
  return older;
}
