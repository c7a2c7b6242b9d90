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
