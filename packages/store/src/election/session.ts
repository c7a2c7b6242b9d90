// A lease kept alive. Its signal aborts when the lease is lost, or can no longer be known to be held.
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { type FailureLog, background, ignore } from "@gpve/kit/background.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import type { Store } from "../port.ts";

export interface SessionOptions {
  readonly ttlSeconds: number;
  readonly log: FailureLog;
  readonly clock?: Clock;
}

export interface Session {
  readonly lease: bigint;
  /** Aborted before anyone else can see the lease as ended: measured from when the last renewal was sent. */
  readonly signal: AbortSignal;
  /** Ends the lease, and with it all its keys, at once. */
  close(): Promise<void>;
}

/** Stop believing in the lease this much before its end, as part of its time. */
const MARGIN = 0.1;

export async function openSession(store: Store, options: SessionOptions): Promise<Session> {
  const clock = options.clock ?? systemClock;
  const granting = clock.monotonic();
  const { id, ttlSeconds } = await store.leaseGrant(options.ttlSeconds);
  const lost = new AbortController();
  const closing = new AbortController();
  const over = AbortSignal.any([lost.signal, closing.signal]);
  let cancel = (): void => undefined;
  const lose = (why: string): void => {
    if (over.aborted) return;
    lost.abort(new AppError("object.conflict", `the lease ${id} was lost: ${why}`));
  };
  const extend = (sentAt: number): void => {
    cancel();
    const end = sentAt + ttlSeconds * 1_000 * (1 - MARGIN);
    cancel = clock.after(Math.max(0, end - clock.monotonic()), () => lose("it could not be renewed in time"));
  };
  extend(granting);
  const renew = async (): Promise<void> => {
    const interval = (ttlSeconds * 1_000) / 3;
    for (let wait = interval; !over.aborted;) {
      await clock.sleep(wait, over).catch((err: unknown) => ignore(err, "the loop ends by its condition"));
      if (over.aborted) return;
      const sentAt = clock.monotonic();
      try {
        await store.leaseKeepAlive(id);
        if (!over.aborted) extend(sentAt);
        wait = interval;
      } catch (err) {
        if (isAppError(err, "object.not_found")) lose("it has expired");
        else options.log.error({ err: messageOf(err) }, "a lease could not be renewed; trying again");
        wait = Math.min(1_000, interval / 4);
      }
    }
  };
  background(options.log, "renewing a lease", renew());
  return {
    lease: id,
    signal: lost.signal,
    async close() {
      if (closing.signal.aborted) return;
      closing.abort();
      cancel();
      lost.abort(new AppError("operation.cancelled", "the session was closed"));
      try {
        await store.leaseRevoke(id);
      } catch (err) {
        if (!isAppError(err, "object.not_found")) throw err;
        ignore(err, "it had ended by itself");
      }
    },
  };
}
