// Work that is done again and again, with a pause after each time.
import { ignore } from "./background.ts";
import type { Clock } from "./clock.ts";

/** Until the signal aborts; what the work throws ends it as well. */
export async function every(
  pauseMs: number,
  { clock, signal }: { readonly clock: Pick<Clock, "sleep">; readonly signal: AbortSignal },
  work: () => unknown,
): Promise<void> {
  while (!signal.aborted) {
    await work();
    await clock.sleep(pauseMs, signal).catch((err: unknown) => ignore(err, "the signal ends the loop"));
  }
}

/** Work that is due at a time of its own, and at once when something has changed. */
export interface DueWork {
  readonly clock: Pick<Clock, "sleep">;
  readonly signal: AbortSignal;
  /** Calls back on every change; returns the unsubscribe. */
  readonly watch: (changed: () => void) => () => void;
  /** At least so long after each time: many changes at once are looked at once. */
  readonly restMs?: number;
  /** Asked after each time: how long nothing will be due. */
  readonly waitMs: () => number;
  /** It is tried again. */
  readonly failed: (err: unknown) => void;
}

/** Until the signal aborts. */
export async function everyDue(due: DueWork, work: () => Promise<void>): Promise<void> {
  const { clock, signal, watch, restMs = 0, waitMs, failed } = due;
  const pause = (ms: number, until: AbortSignal): Promise<void> =>
    clock
      .sleep(ms, until)
      .catch((err: unknown) => ignore(err, "woken early or stopped: the loop looks which"));
  let wake = new AbortController();
  const stopWatching = watch(() => wake.abort());
  try {
    while (!signal.aborted) {
      wake = new AbortController();
      try {
        await work();
      } catch (err) {
        if (signal.aborted) return;
        failed(err);
      }
      if (restMs > 0) await pause(restMs, signal);
      await pause(waitMs(), AbortSignal.any([signal, wake.signal]));
    }
  } finally {
    stopWatching();
  }
}
