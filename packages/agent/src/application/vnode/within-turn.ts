// Clusters are looked after one by one, and what their APIs are asked can be made to take its time by whoever administers them
// (webhooks do): each has its turn, and what is left of it waits for the next one.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";

const TURN_MS = 15_000;

export async function withinTurn(
  clock: Pick<Clock, "after">,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const over = new AbortController();
  const stopTimer = clock.after(TURN_MS, () =>
    over.abort(
      new AppError("request.timeout", `its API takes longer than ${TURN_MS / 1000} s for all of it`),
    ),
  );
  try {
    await work(AbortSignal.any([signal, over.signal]));
  } finally {
    stopTimer();
  }
}
