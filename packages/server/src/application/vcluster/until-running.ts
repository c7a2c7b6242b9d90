import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";

const LOOK_MS = 100;
const STILL_COMING = ["Pending", "Provisioning", "Initializing"];

/** As its nodes report it; throws with the node's reason when it comes to anything else. */
export async function untilRunning(
  { board, clock }: { readonly board: NodeBoard; readonly clock: Clock },
  cluster: Pick<VirtualClusterRecord, "name" | "node" | "spread">,
  signal: AbortSignal,
): Promise<void> {
  for (const node of nodesOf(cluster)) await untilRunningOn({ board, clock }, cluster.name, node, signal);
}

async function untilRunningOn(
  { board, clock }: { readonly board: NodeBoard; readonly clock: Clock },
  name: string,
  node: string,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const found = board.get(node)?.report?.vclusters?.find((each) => each.name === name);
    if (found?.phase === "Running") return;
    if (found !== undefined && !STILL_COMING.includes(found.phase))
      throw new AppError(
        "object.conflict",
        `virtual cluster '${name}' was made and is ${found.phase}: ${found.message ?? "its node says no more"}`,
      );
    await clock.sleep(LOOK_MS, signal);
  }
}
