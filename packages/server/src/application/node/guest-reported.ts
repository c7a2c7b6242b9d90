import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface ReportedGuest {
  readonly node: string;
  readonly vmid: number;
  readonly running: boolean;
}

/** A few reports. A guest may also have switched itself off at once. */
const PATIENCE_MS = 15_000;

/** Resolves when a node has told that a guest runs, or does not run; or when it has had long enough. */
export async function guestReported(
  { board, clock }: { readonly board: ObservedBoard; readonly clock: Pick<Clock, "after"> },
  { node, vmid, running }: ReportedGuest,
  signal: AbortSignal,
): Promise<void> {
  const isSo = (): boolean => {
    const guest = board.get(node)?.report?.guests.find((one) => one.vmid === vmid);
    return (guest?.status === "running") === running;
  };
  const { promise, resolve } = Promise.withResolvers<void>();
  const end = (): void => resolve();
  const stop = board.onChange(() => {
    if (isSo()) resolve();
  });
  const cancel = clock.after(PATIENCE_MS, end);
  signal.addEventListener("abort", end);
  try {
    if (isSo() || signal.aborted) return;
    await promise;
  } finally {
    stop();
    cancel();
    signal.removeEventListener("abort", end);
  }
}

type ObservedBoard = Pick<NodeBoard, "get"> & { onChange(listener: () => void): () => void };
