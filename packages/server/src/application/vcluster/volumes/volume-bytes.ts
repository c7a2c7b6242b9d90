import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { keyOf, nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { runtimeIn } from "@gpve/domain/vcluster/vcluster-runtime.ts";

/** What the persistent volumes of a cluster were asked for, as far as its nodes have told. */
export function volumeBytesOf(
  board: Pick<NodeBoard, "get">,
  record: Pick<VirtualClusterRecord, "name" | "key" | "node" | "spread">,
): number {
  const workers = nodesOf(record).flatMap(
    (node) => runtimeIn(board.get(node)?.report?.vclusters, keyOf(record))?.vnodes ?? [],
  );
  return workers.reduce((sum, { volumeBytes = 0 }) => sum + volumeBytes, 0);
}
