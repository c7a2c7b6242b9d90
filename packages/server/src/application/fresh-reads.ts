// Reads first make sure that memory shows what others wrote. When the store cannot be asked, they go on from memory, as
// PVE's do without quorum: writes fail then, so there is nothing newer that this server's clients were promised.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Records } from "@gpve/store/records/port.ts";

export interface FreshReadsDeps {
  readonly records: Pick<Records, "fresh">;
  readonly clock: Clock;
  readonly log: {
    warn(fields: Readonly<Record<string, unknown>>, message: string): void;
    info(fields: Readonly<Record<string, unknown>>, message: string): void;
  };
}

/** A client would rather have an answer of a moment ago. */
const PATIENCE_MS = 2_000;
/** While the store is away, one read in this time asks for it; the others do not wait. */
const ASK_AGAIN_MS = 2_000;
/** Where nobody reads, the store is asked so often: what is told of an age is true within this. */
const IDLE_MS = 5_000;

export interface FreshReads {
  /** Before every read. */
  readonly fresh: (signal: AbortSignal) => Promise<void>;
  /** Whether the store answered when it was last asked, which is with every read. */
  readonly answers: () => boolean;
  /** How old what is read may be, in whole seconds; undefined while the store answers. */
  readonly ageSeconds: () => number | undefined;
  /** Asks by itself while nobody reads, until the signal aborts. */
  readonly keep: (signal: AbortSignal) => Promise<void>;
}

export function freshReads({ records, clock, log }: FreshReadsDeps): FreshReads {
  let away = false;
  let askAt = 0;
  let freshAt = clock.monotonic();
  const fresh = async (signal: AbortSignal): Promise<void> => {
    if (away && clock.monotonic() < askAt) return;
    const askedAt = clock.monotonic();
    askAt = askedAt + PATIENCE_MS + ASK_AGAIN_MS;
    const current = await isCurrent(records, clock, signal);
    if (current) freshAt = askedAt;
    if (current === away) {
      away = !current;
      if (away) log.warn({}, "the store does not answer: reads show what this server last knew");
      else log.info({}, "the store answers again: reads are up to date");
    }
  };
  const ageSeconds = (): number | undefined =>
    away ? Math.ceil((clock.monotonic() - freshAt) / 1_000) : undefined;
  const keep = (signal: AbortSignal): Promise<void> =>
    every(IDLE_MS, { clock, signal }, async () => {
      if (clock.monotonic() - freshAt < IDLE_MS) return;
      try {
        await fresh(signal);
      } catch (err) {
        if (!signal.aborted) log.warn({ err: messageOf(err) }, "the store could not be asked");
      }
    });
  return { fresh, answers: () => !away, ageSeconds, keep };
}

/** One process owns the store: what it wrote is in its memory, and without the store it would not run. */
export const ownedStore: FreshReads = {
  fresh: () => Promise.resolve(),
  answers: () => true,
  ageSeconds: () => undefined,
  keep: () => Promise.resolve(),
};

/** The same records for those who rather read what was last known than nothing. Changes fail as ever. */
export function readableRecords(records: Records, reads: FreshReads): Records {
  return {
    collection: (def) => records.collection(def),
    transact: (change, options) => records.transact(change, options),
    fresh: ({ signal } = {}) => reads.fresh(signal ?? new AbortController().signal),
    revision: () => records.revision(),
  };
}

/** False when the store did not answer in time. */
async function isCurrent(
  records: Pick<Records, "fresh">,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<false>();
  const cancel = clock.after(PATIENCE_MS, () => resolve(false));
  const fresh = records.fresh({ signal }).then(
    () => true,
    (err: unknown) => {
      if (isAppError(err, "store.unavailable")) return false;
      throw err;
    },
  );
  try {
    return await Promise.race([fresh, late]);
  } finally {
    cancel();
  }
}
