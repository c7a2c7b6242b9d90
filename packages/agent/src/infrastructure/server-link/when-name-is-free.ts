// A server that lost its power seems to run until its lease has ended. A machine that takes its place under the same name waits for
// that; one whose name really is another's hears so when who runs has had the time to show it.
import { isAppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";

/** Twice a server's lease, and a little: an etcd that gets another leader meanwhile begins all leases anew. */
const PATIENCE_MS = 25_000;
const PAUSE_MS = 1_000;

export async function whenNameIsFree<T>(
  join: () => Promise<T>,
  {
    clock,
    say,
  }: { readonly clock: Pick<Clock, "monotonic" | "sleep">; readonly say: (line: string) => void },
): Promise<T> {
  const until = clock.monotonic() + PATIENCE_MS;
  for (let tries = 0; ; tries++) {
    try {
      return await join();
    } catch (err) {
      if (!isAppError(err, "object.exists") || clock.monotonic() >= until) throw err;
      if (tries === 0)
        say(`a server of that name was there a moment ago: waiting for up to ${PATIENCE_MS / 1_000} s`);
      await clock.sleep(PAUSE_MS);
    }
  }
}
