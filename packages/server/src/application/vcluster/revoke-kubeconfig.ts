// A kubeconfig is taken back from the cluster, and denied by each of its API servers, which know that from files of their own.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { keyOf, nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { answeringNode } from "./replicas/replica-nodes.ts";

export interface RevokeDeps {
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
}

export async function revokeKubeconfig(
  { board, calls }: RevokeDeps,
  record: VirtualClusterRecord,
  id: string,
  ctx: RequestContext,
): Promise<void> {
  const { name, tenant, spread } = record;
  const route = "DELETE /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs/{id}" as const;
  const asked = { vcluster: keyOf(record), tenant, id };
  const first = answeringNode(board, record);
  const failed: { readonly node: string; readonly cause: unknown }[] = [];
  const nodes = hasReplicas(spread) ? nodesOf(record) : [first];
  for (const node of [first, ...nodes.filter((each) => each !== first)]) {
    ctx.signal.throwIfAborted();
    await calls.call(node, route, asked, ctx).catch((cause: unknown) => failed.push({ node, cause }));
  }
  // Whoever finds no binding, as another one was quicker, denies it all the same.
  const deaf = failed.filter(({ cause }) => !isAppError(cause, "object.not_found"));
  if (failed.length === nodes.length) throw (deaf[0] ?? failed[0])?.cause;
  if (deaf.length === 0) return;
  const where = deaf.map(({ node }) => node).join(", ");
  throw new AppError(
    "node.unavailable",
    `kubeconfig '${id}' of virtual cluster '${name}' is revoked, but its replicas on ${where} have not heard of it: try again when they serve`,
    { cause: deaf[0]?.cause },
  );
}
