// The operation journal on a Store.
//
//   <prefix>owner         who may write: {owner, token}; under a lease where several processes compete
//   <prefix>sequence      the highest number ever given
//   <prefix>op/<number>   one record each
//   <prefix>.commit/…     where answers can be lost: how the fate of each write is found out
//
// Every write compares the owner key's revision, so a former owner is refused whatever it believes.
import { randomUUID } from "node:crypto";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Journal, JournalSession } from "@gpve/kit/operation/journal.ts";
import { decodeRecord } from "@gpve/kit/operation/record.ts";
import type { OperationRecord } from "@gpve/kit/operation/record.ts";
import { CommitSlots } from "../commit-slots.ts";
import { fromUtf8, prefixEnd, utf8 } from "../keys.ts";
import type { Bytes, Compare, Op, Store } from "../port.ts";
import { readAll } from "../read-all.ts";
import { BatchWriter } from "./batch-writer.ts";

export interface StoreJournalOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Ends with "/": "/gpve/operations/server-1/". */
  readonly prefix: string;
  /**
   * Where several processes could own the journal: how long the claim of a silent owner lasts. Absent for a
   * store that only one process can open.
   */
  readonly leaseSeconds?: number;
  /**
   * Forgets the store's history after so many transactions. Only for a store that holds nothing else whose
   * history matters; the cluster store is compacted elsewhere.
   */
  readonly compactEvery?: number;
  /** The first number given is one more. Lets two journals of one node number their tasks apart. */
  readonly numberFrom?: number;
}

interface Claim {
  readonly revision: number;
  readonly lease: bigint | undefined;
}

const RETRY_MS = 1_000;

export class StoreJournal implements Journal {
  readonly #options: StoreJournalOptions;
  readonly #ownerKey: Bytes;
  readonly #slots: CommitSlots;

  constructor(options: StoreJournalOptions) {
    this.#options = options;
    this.#slots = new CommitSlots({ store: options.store, clock: options.clock, root: options.prefix });
    this.#ownerKey = utf8(`${options.prefix}owner`);
  }

  async claim(owner: string, signal: AbortSignal): Promise<JournalSession> {
    for (;;) {
      signal.throwIfAborted();
      const claim = await this.#tryClaim(owner);
      if (claim !== undefined)
        return new StoreJournalSession(this.#options, this.#slots, this.#ownerKey, claim);
      await this.#options.clock.sleep(RETRY_MS, signal);
    }
  }

  async #tryClaim(owner: string): Promise<Claim | undefined> {
    const { store, leaseSeconds } = this.#options;
    const { kvs } = await store.range({ key: this.#ownerKey });
    const current = kvs[0];
    if (current !== undefined && ownerOf(current.value) !== owner) return undefined;
    const granted = leaseSeconds === undefined ? undefined : await store.leaseGrant(leaseSeconds);
    const value = utf8(JSON.stringify({ owner, token: randomUUID() }));
    const lease = granted === undefined ? {} : { lease: granted.id };
    const { succeeded, revision } = await this.#slots.txn({
      compare: [unchanged(this.#ownerKey, current?.modRevision ?? 0)],
      success: [{ type: "put", key: this.#ownerKey, value, ...lease }],
    });
    if (succeeded) return { revision, lease: granted?.id };
    if (granted !== undefined) await store.leaseRevoke(granted.id);
    return undefined;
  }
}

class StoreJournalSession implements JournalSession {
  readonly #options: StoreJournalOptions;
  readonly #ownerKey: Bytes;
  readonly #claim: Claim;
  readonly #slots: CommitSlots;
  readonly #lost = new AbortController();
  readonly #writer: BatchWriter;
  #cancelTimer: () => void = () => {};
  #highest = 0;
  #commits = 0;
  /** Monotonic time until which the lease surely holds. */
  #holdsUntil = Number.POSITIVE_INFINITY;

  constructor(options: StoreJournalOptions, slots: CommitSlots, ownerKey: Bytes, claim: Claim) {
    this.#options = options;
    this.#slots = slots;
    this.#ownerKey = ownerKey;
    this.#claim = claim;
    this.#writer = new BatchWriter((ops) => this.#commit(ops));
    if (options.leaseSeconds === undefined) return;
    this.#holdsUntil = options.clock.monotonic() + options.leaseSeconds * 1_000;
    this.#renewLater();
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async load(): Promise<{ readonly records: readonly OperationRecord[]; readonly lastSequence: number }> {
    const { store, prefix, numberFrom = 0 } = this.#options;
    const key = utf8(`${prefix}op/`);
    const records: OperationRecord[] = [];
    await readAll(store, { key, end: prefixEnd(key) }, undefined, (kvs) => {
      for (const kv of kvs) records.push(decodeRecord(JSON.parse(fromUtf8(kv.value))));
    });
    await this.#tidy();
    const { kvs } = await store.range({ key: this.#sequenceKey });
    const stored = kvs[0] === undefined ? 0 : Number(fromUtf8(kvs[0].value));
    this.#highest = Math.max(numberFrom, stored, this.#highest);
    return { records, lastSequence: this.#highest };
  }

  /** Removes what earlier processes left to find out the fate of their writes. */
  async #tidy(): Promise<void> {
    const key = utf8(`${this.#options.prefix}.commit/`);
    const { kvs } = await this.#options.store.range({ key, end: prefixEnd(key), limit: 100 });
    const slots = kvs.map((kv) => ({ key: fromUtf8(kv.key), value: kv.value }));
    const stale = this.#slots.stale(slots);
    if (stale.length === 0) return;
    await this.#writer.write(stale.map((name) => ({ type: "delete", key: utf8(name) })));
  }

  write(record: OperationRecord): Promise<void> {
    const ops: Op[] = [
      { type: "put", key: this.#recordKey(record.sequence), value: utf8(JSON.stringify(record)) },
    ];
    if (record.sequence > this.#highest) {
      this.#highest = record.sequence;
      ops.push({ type: "put", key: this.#sequenceKey, value: utf8(String(record.sequence)) });
    }
    return this.#writer.write(ops);
  }

  async remove(sequences: readonly number[]): Promise<void> {
    for (let at = 0; at < sequences.length; at += 50) {
      const page = sequences.slice(at, at + 50);
      await this.#writer.write(page.map((number) => ({ type: "delete", key: this.#recordKey(number) })));
    }
  }

  async release(): Promise<void> {
    this.#cancelTimer();
    if (this.#lost.signal.aborted) return;
    try {
      await this.#commit([{ type: "delete", key: this.#ownerKey }]);
      if (this.#claim.lease !== undefined) await this.#options.store.leaseRevoke(this.#claim.lease);
    } catch (error) {
      ignore(error, "the lease ends by itself, and the same owner takes over its own claim");
    }
    this.#lose("the journal was released");
  }

  async #commit(ops: readonly Op[]): Promise<void> {
    this.#lost.signal.throwIfAborted();
    const { succeeded, revision } = await this.#slots.txn({
      compare: [unchanged(this.#ownerKey, this.#claim.revision)],
      success: ops,
    });
    if (succeeded) {
      this.#commits += 1;
      if (this.#commits % (this.#options.compactEvery ?? Number.POSITIVE_INFINITY) === 0)
        await this.#compact(revision);
      return;
    }
    this.#lose("another process owns the journal");
    this.#lost.signal.throwIfAborted();
  }

  async #compact(revision: number): Promise<void> {
    try {
      await this.#options.store.compact(revision);
    } catch (error) {
      ignore(error, "history is only a waste of space; the next round tries again");
    }
  }

  #renewLater(): void {
    const { clock, leaseSeconds = 0 } = this.#options;
    this.#cancelTimer = clock.after((leaseSeconds * 1_000) / 3, () => void this.#renew());
  }

  async #renew(): Promise<void> {
    const { clock, store, leaseSeconds = 0 } = this.#options;
    const { lease } = this.#claim;
    if (lease === undefined || this.#lost.signal.aborted) return;
    const askedAt = clock.monotonic();
    // The store may not answer at all: by our own clock, too, the claim ends when the lease does.
    const cancelDeadline = clock.after(Math.max(0, this.#holdsUntil - askedAt), () =>
      this.#lose("the lease could not be renewed in time"),
    );
    try {
      const left = await store.leaseKeepAlive(lease);
      if (left <= 0) throw new AppError("object.not_found", "the lease has ended");
      this.#holdsUntil = askedAt + leaseSeconds * 1_000;
    } catch (error) {
      const isGone = error instanceof AppError && error.code === "object.not_found";
      if (isGone || clock.monotonic() >= this.#holdsUntil)
        this.#lose(`the lease could not be renewed: ${messageOf(error)}`);
    } finally {
      cancelDeadline();
    }
    if (!this.#lost.signal.aborted) this.#renewLater();
  }

  #lose(why: string): void {
    this.#cancelTimer();
    if (!this.#lost.signal.aborted) this.#lost.abort(new AppError("object.conflict", why));
  }

  get #sequenceKey(): Bytes {
    return utf8(`${this.#options.prefix}sequence`);
  }

  #recordKey(sequence: number): Bytes {
    return utf8(`${this.#options.prefix}op/${String(sequence).padStart(12, "0")}`);
  }
}

function unchanged(key: Bytes, modRevision: number): Compare {
  return { key, target: "modRevision", result: "equal", modRevision };
}

function ownerOf(value: Bytes): unknown {
  return (JSON.parse(fromUtf8(value)) as { owner?: unknown }).owner;
}
