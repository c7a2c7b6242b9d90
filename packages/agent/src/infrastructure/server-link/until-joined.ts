// A node joins as soon as a server answers, and as soon as the machine that had its name is away for long enough. Where one of
// that name runs on, whoever started this one hears so.
import { type AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";

const RETRY_MS = 1_000;
const UNREACHED_MS = 120_000;
/** Twice a node's lease, and a little. */
const TAKEN_MS = 30_000;

export async function untilJoined<T>(
  join: () => Promise<T>,
  { clock, say }: { readonly clock: Pick<Clock, "monotonic" | "sleep">; readonly say: (why: string) => void },
): Promise<T> {
  // Each reason has its patience: servers that have just come back do not know yet who is away.
  const begun = new Map<string, number>();
  for (;;) {
    try {
      return await join();
    } catch (err) {
      if (!isAppError(err)) throw err;
      const now = clock.monotonic();
      const since = begun.get(err.code) ?? now;
      begun.set(err.code, since);
      if (now - since >= patienceMs(err)) throw err;
      say(err.message);
      await clock.sleep(RETRY_MS);
    }
  }
}

function patienceMs({ code }: AppError): number {
  if (code === "node.unavailable") return UNREACHED_MS;
  return code === "resource.busy" ? TAKEN_MS : 0;
}
