import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { keyOf, nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { plainWords } from "./plain-words.ts";
import { runtimeOn } from "./replicas/replica-nodes.ts";
import type { Clock } from "@gpve/kit/clock.ts";

const LOOK_MS = 100;
const STILL_COMING = ["Pending", "Provisioning", "Initializing"];

/** As its nodes report it; throws with the node's reason when it comes to anything else. */
export async function untilRunning(
  { board, clock }: { readonly board: NodeBoard; readonly clock: Clock },
  cluster: Pick<VirtualClusterRecord, "name" | "key" | "node" | "spread">,
  signal: AbortSignal,
): Promise<void> {
  for (const node of nodesOf(cluster)) await untilRunningOn({ board, clock }, cluster, node, signal);
}

async function untilRunningOn(
  { board, clock }: { readonly board: NodeBoard; readonly clock: Clock },
  cluster: Pick<VirtualClusterRecord, "name" | "key">,
  node: string,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const found = runtimeOn(board, node, keyOf(cluster));
    if (found?.phase === "Running") return;
    if (found !== undefined && !STILL_COMING.includes(found.phase))
      throw new AppError(
        "object.conflict",
        `virtual cluster '${cluster.name}' was made and is ${found.phase}: ${plainWords(cluster, found.message ?? "its node says no more")}`,
      );
    await clock.sleep(LOOK_MS, signal);
  }
}
