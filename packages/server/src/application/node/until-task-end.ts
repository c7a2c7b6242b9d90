// The end of a task on a node that is there: one that is lost ends nothing that somebody could wait for. An agent that is started
// again, or that a busy machine keeps from saying that it lives, goes on with its tasks, and is waited for.
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface TaskEndDeps {
  readonly board: Pick<NodeBoard, "get">;
  readonly clock: Pick<Clock, "sleep">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
}

const LOOK_MS = 500;
const PATIENCE_MS = 20_000;

export async function untilTaskEnd(
  { board, clock, taskEnd }: TaskEndDeps,
  { node, upid, signal }: { readonly node: string; readonly upid: string; readonly signal: AbortSignal },
): Promise<void> {
  const stop = new AbortController();
  const until = AbortSignal.any([signal, stop.signal]);
  const lost = async (): Promise<never> => {
    for (let awayMs = 0; ;) {
      await clock.sleep(LOOK_MS, until);
      awayMs = board.get(node)?.health === "online" ? 0 : awayMs + LOOK_MS;
      if (awayMs >= PATIENCE_MS) requireOnline(board, node);
    }
  };
  const watching = lost();
  // Who is not waited for any more fails for that reason alone.
  watching.catch(() => undefined);
  try {
    await Promise.race([taskEnd(upid, until), watching]);
  } finally {
    stop.abort();
  }
}

export function requireOnline(board: Pick<NodeBoard, "get">, node: string): void {
  if (board.get(node)?.health === "online") return;
  throw new AppError("node.unavailable", `node '${node}' is not online`);
}
