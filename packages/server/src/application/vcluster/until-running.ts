import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { plainWords } from "./plain-words.ts";
import { runtimeOn } from "./replicas/replica-nodes.ts";

const LOOK_MS = 100;
const STILL_COMING = ["Pending", "Provisioning", "Initializing"];
/** An agent that is restarted is back before then. */
const SILENCE_MS = 120_000;

export interface UntilRunningDeps {
  readonly records: Pick<Records, "collection">;
  readonly board: NodeBoard;
  readonly clock: Clock;
}

/** As its nodes report it; throws with the node's reason when it comes to anything else, and when nobody works on it any more. */
export async function untilRunning(
  deps: UntilRunningDeps,
  made: VirtualClusterRecord,
  signal: AbortSignal,
): Promise<void> {
  const { records, board, clock } = deps;
  const { name } = made;
  /** Of each node, since it was first waited for: one that was away before is no fault of the next. */
  const heardAt = new Map<string, number>();
  for (;;) {
    const record = records.collection(vclusterCollection).get(keyOf(made))?.value;
    if (record === undefined)
      throw new AppError("object.conflict", `virtual cluster '${name}' was deleted before it ran`);
    const coming = nodesOf(record).filter((node) => !runsOn(board, record, node));
    if (coming.length === 0) return;
    const now = clock.monotonic();
    for (const node of nodesOf(record))
      if (!heardAt.has(node) || board.get(node)?.health === "online") heardAt.set(node, now);
    const silent = coming.find((node) => now - (heardAt.get(node) ?? now) > SILENCE_MS);
    if (silent !== undefined)
      throw new AppError(
        "object.conflict",
        `virtual cluster '${name}' was made, and node ${silent}, which is to run it, says nothing for ${SILENCE_MS / 1000} s: it goes on when the node is back; look whether that runs, or delete the cluster`,
      );
    await clock.sleep(LOOK_MS, signal);
  }
}

function runsOn(board: NodeBoard, record: VirtualClusterRecord, node: string): boolean {
  const found = runtimeOn(board, node, keyOf(record));
  if (found === undefined || STILL_COMING.includes(found.phase)) return false;
  if (found.phase === "Running") return true;
  throw new AppError(
    "object.conflict",
    `virtual cluster '${record.name}' was made and is ${found.phase}: ${plainWords(record, found.message ?? "its node says no more")}`,
  );
}
