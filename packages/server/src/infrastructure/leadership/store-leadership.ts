// Work that one server of several does: whoever leads does it, and another takes over when the leader is gone.
import { messageOf } from "@gpve/contracts/errors.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { campaign } from "@gpve/store/election/election.ts";
import { openSession } from "@gpve/store/election/session.ts";
import type { Store } from "@gpve/store/port.ts";

/** Work of whichever server leads, until `signal` aborts; resolves when nothing of it runs any more. */
export type Lead = (
  /** Of the election: "backup-jobs". */
  name: string,
  work: (signal: AbortSignal) => Promise<unknown>,
  signal: AbortSignal,
) => Promise<void>;

interface LeadershipDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** Key prefix of the election, ends with "/". */
  readonly name: string;
  /** Who stands, for people who look. */
  readonly candidate: string;
}

const SESSION_SECONDS = 10;
const TRY_AGAIN_MS = 2_000;

export function leader(deps: Omit<LeadershipDeps, "name">): Lead {
  return (name, work, signal) => {
    const leading = whileLeading({ ...deps, name: `/gpve/leaders/${name}/` }, work, signal);
    background(deps.log, `standing for ${name}`, leading);
    return leading.catch((err: unknown) => ignore(err, "it was logged"));
  };
}

/** Stands again and again until `signal` aborts; `work` runs while this server leads and ends with its own signal. */
async function whileLeading(
  deps: LeadershipDeps,
  work: (signal: AbortSignal) => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await leadOnce(deps, work, signal);
    } catch (err) {
      if (signal.aborted) return;
      deps.log.warn({ election: deps.name, err: messageOf(err) }, "leadership ended; standing again");
      await deps.clock
        .sleep(TRY_AGAIN_MS, signal)
        .catch((late: unknown) => ignore(late, "the loop ends by its condition"));
    }
  }
}

async function leadOnce(
  { store, clock, log, name, candidate }: LeadershipDeps,
  work: (signal: AbortSignal) => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  const session = await openSession(store, { ttlSeconds: SESSION_SECONDS, log, clock });
  try {
    const leadership = await campaign({ store, session, name, value: candidate, signal, clock });
    await work(AbortSignal.any([signal, leadership.signal]));
  } finally {
    await session.close().catch((err: unknown) => ignore(err, "the store is away; the lease ends by itself"));
  }
}
