// Leader election: candidates put a key below the election's name, tied to their session's lease. The oldest key
// leads; each other candidate waits for the one just before it, so a departure wakes one, not all.
//
// The leader's token is the create revision of its key: later leaders have greater ones. A write that must only be
// done by the leader carries `leads(…)` as a comparison; a disk or device remembers the greatest token it has seen.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import type { Bytes, Compare, Store } from "../port.ts";
import { prefixEnd, utf8 } from "../keys.ts";
import type { Session } from "./session.ts";

export interface Candidate {
  readonly store: Store;
  readonly session: Session;
  /** Key prefix of the election, ends with "/": "/gpve/leaders/ha/". */
  readonly name: string;
  /** Who stands, for whoever looks into the store. */
  readonly value: string;
  /** Gives up standing. */
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
}

export interface Leadership {
  /** Fencing token: grows with every leader of this election. */
  readonly token: number;
  readonly key: Bytes;
  /** Aborted when leadership is lost or resigned. */
  readonly signal: AbortSignal;
  resign(): Promise<void>;
}

/** Resolves when this candidate leads. Rejects when its session is lost or `signal` aborts first. */
export async function campaign(candidate: Candidate): Promise<Leadership> {
  const { store, session, name, clock = systemClock } = candidate;
  const key = utf8(`${name}${session.lease.toString(16)}`);
  const signal =
    candidate.signal === undefined ? session.signal : AbortSignal.any([session.signal, candidate.signal]);
  try {
    const token = await retrying(clock, signal, () => stand(candidate, key));
    await retrying(clock, signal, () => waitForTurn(store, name, token, signal));
    signal.throwIfAborted();
    const resigned = new AbortController();
    return {
      token,
      key,
      signal: AbortSignal.any([session.signal, resigned.signal]),
      async resign() {
        if (resigned.signal.aborted) return;
        resigned.abort(new AppError("operation.cancelled", "leadership was resigned"));
        await withdraw(store, key, token);
      },
    };
  } catch (err) {
    if (!session.signal.aborted) {
      await withdraw(store, key).catch((late: unknown) => ignore(late, "the key goes with the lease"));
    }
    throw err;
  }
}

/** A comparison that holds only while this leader leads. */
export function leads(leader: { readonly key: Bytes; readonly token: number }): Compare {
  return { key: leader.key, target: "createRevision", createRevision: leader.token, result: "equal" };
}

/** Puts the candidate's key unless it is there already, for an answer may have been lost; returns its token. */
async function stand({ store, session, value }: Candidate, key: Bytes): Promise<number> {
  const answer = await store.txn({
    compare: [{ key, target: "createRevision", createRevision: 0, result: "equal" }],
    success: [{ type: "put", key, value: utf8(value), lease: session.lease }],
    failure: [{ type: "range", key }],
  });
  if (answer.succeeded) return answer.revision;
  const [found] = answer.responses;
  const kv = found?.type === "range" ? found.kvs[0] : undefined;
  if (kv?.lease !== session.lease) {
    throw new AppError("object.conflict", "another session stands under this lease");
  }
  return kv.createRevision;
}

async function waitForTurn(store: Store, name: string, token: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    const { kvs, revision } = await store.range({ ...span(name), keysOnly: true }, { signal });
    const before = kvs.filter((kv) => kv.createRevision < token);
    const last = before.toSorted((a, b) => b.createRevision - a.createRevision)[0];
    if (!kvs.some((kv) => kv.createRevision === token)) {
      throw new AppError("object.conflict", "the candidate's key is gone");
    }
    if (last === undefined) return;
    await gone(store, last.key, revision + 1, signal);
  }
}

async function gone(store: Store, key: Bytes, startRevision: number, signal: AbortSignal): Promise<void> {
  const done = new AbortController();
  const both = AbortSignal.any([signal, done.signal]);
  for await (const batch of store.watch({ key, startRevision, signal: both })) {
    const ended =
      batch.type === "gap" ||
      (batch.type === "events" && batch.events.some((event) => event.type === "delete"));
    if (ended) break;
  }
  done.abort();
  signal.throwIfAborted();
}

async function withdraw(store: Store, key: Bytes, token?: number): Promise<void> {
  await store.txn({
    compare: token === undefined ? [] : [leads({ key, token })],
    success: [{ type: "delete", key }],
  });
}

/** A store that is away for a moment ends no candidacy; a lost session does. */
async function retrying<T>(clock: Clock, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (err) {
      signal.throwIfAborted();
      if (!isAppError(err, "store.unavailable")) throw err;
      await clock.sleep(200, signal);
    }
  }
}

function span(name: string): { key: Bytes; end: Bytes } {
  const key = utf8(name);
  return { key, end: prefixEnd(key) };
}
