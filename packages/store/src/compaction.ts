// Forgets old history now and then, so that a store does not grow for ever.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { type FailureLog, ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Store } from "./port.ts";

export interface CompactionOptions {
  readonly clock: Clock;
  readonly log: FailureLog;
  /** History younger than this is kept; default 10 minutes. */
  readonly keepMs?: number;
  /** At least this many revisions are kept; default 1000. */
  readonly keepRevisions?: number;
}

/** Starts at once; several servers may do this on one store. Returns the stop. */
export function startCompaction(store: Store, options: CompactionOptions): () => void {
  const { clock, log, keepMs = 600_000, keepRevisions = 1_000 } = options;
  /** What the revision was when; oldest first. */
  const seen: { at: number; revision: number }[] = [];
  let last = 0;
  let cancel = (): void => undefined;
  let stopped = false;
  const round = async (): Promise<void> => {
    const revision = await store.revision();
    const now = clock.monotonic();
    seen.push({ at: now, revision });
    let old = 0;
    for (let first = seen[0]; first !== undefined && first.at <= now - keepMs; first = seen[0]) {
      old = first.revision;
      seen.shift();
    }
    const target = Math.min(old, revision - keepRevisions);
    if (target <= last) return;
    last = target;
    try {
      await store.compact(target);
    } catch (err) {
      if (!isAppError(err, "store.compacted")) throw err;
      ignore(err, "another server was quicker");
    }
  };
  const next = (): void => {
    if (stopped) return;
    cancel = clock.after(Math.max(1_000, keepMs / 5), () => {
      round()
        .catch((err: unknown) => log.error({ err: messageOf(err) }, "compacting the store failed"))
        .finally(next)
        .catch((err: unknown) => ignore(err, "planning the next round cannot fail"));
    });
  };
  next();
  return () => {
    stopped = true;
    cancel();
  };
}
