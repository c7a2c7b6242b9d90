// What is shown of the replicas of a control plane.
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { keyOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { isServing, runtimeOn } from "./replica-nodes.ts";

export interface ReplicaStatus {
  readonly rows: readonly Fields[];
  /** Without it nothing can be written, and little can be read. */
  readonly hasMajority: boolean;
  readonly condition: Fields;
}

/** undefined = its control plane is alone. */
export function replicaStatus(
  board: NodeBoard,
  record: Pick<VirtualClusterRecord, "name" | "key" | "spread">,
): ReplicaStatus | undefined {
  const { spread } = record;
  const key = keyOf(record);
  if (spread === undefined || !hasReplicas(spread)) return undefined;
  const rows = spread.nodes.map(({ node }) => {
    const isOnline = board.get(node)?.health === "online";
    const runtime = runtimeOn(board, node, key);
    const phase = isOnline ? (runtime?.phase ?? "Pending") : "Unknown";
    // While workers come and go its API answers as before.
    const isScaling = phase === "Scaling" && runtime?.power === "hot";
    return { node, phase, ready: isServing(board, node, key) || isScaling };
  });
  const missing = rows.filter(({ ready }) => !ready);
  const ready = rows.length - missing.length;
  const why = missing.map(({ node, phase }) => `${node} is ${phase === "Unknown" ? "offline" : phase}`);
  const message = [`${ready} of ${rows.length} replicas serve`, ...why].join("; ");
  const isWhole = missing.length === 0;
  return {
    rows,
    hasMajority: ready * 2 > rows.length,
    condition: {
      type: "ReplicasReady",
      status: isWhole ? "True" : "False",
      reason: isWhole ? "AllServe" : "ReplicaMissing",
      message,
    },
  };
}
