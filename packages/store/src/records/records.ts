// Records on a Store: a memory cache fed by one watch, and optimistic transactions on top of it.
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { type FailureLog, background, ignore } from "@gpve/kit/background.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { KeyedQueue } from "@gpve/kit/keyed-queue.ts";
import type { KeyValue, Store } from "../port.ts";
import { prefixEnd, utf8 } from "../keys.ts";
import { readAll } from "../read-all.ts";
import { CommitSlots } from "../commit-slots.ts";
import { CollectionCache, type CollectionFeed, type RawRecord } from "./collection-cache.ts";
import type { CollectionDef, Records, Tx } from "./port.ts";
import { RevisionGate } from "./revision-gate.ts";
import { Transaction } from "./transaction.ts";

export interface RecordsOptions {
  /** Everything below this is cached; ends with "/". */
  readonly prefix: string;
  /** Ends the cache. */
  readonly signal?: AbortSignal;
  readonly log: FailureLog;
  readonly clock?: Clock;
  /** How long to try for the first list before giving up. */
  readonly startTimeoutMs?: number;
  /** Where this process may keep its marks for lost answers, when it may not write everywhere: "node-n1". */
  readonly corner?: string;
}

/** A cache that lags longer than this is reported rather than waited for. */
const LAG_LIMIT_MS = 10_000;
/** After this the store is asked whether the cache missed anything at all. */
const PROBE_AFTER_MS = 30;
const MAX_BACKOFF_MS = 5_000;
const MAX_ATTEMPTS = 100;

/** Resolves when the cache is filled. */
export async function openRecords(
  store: Store,
  options: RecordsOptions,
): Promise<Records & { close(): Promise<void> }> {
  if (!options.prefix.endsWith("/"))
    throw new TypeError(`records prefix ${options.prefix} must end with "/"`);
  const records = new CachedRecords(store, options);
  await records.start(options.startTimeoutMs ?? 60_000);
  return records;
}

class CachedRecords implements Records {
  readonly #store: Store;
  readonly #root: string;
  readonly #log: FailureLog;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  readonly #gate = new RevisionGate();
  readonly #conflicts = new KeyedQueue();
  readonly #slots: CommitSlots;
  readonly #collections = new Map<object, CollectionFeed>();
  #records = new Map<string, RawRecord>();
  #feeding: Promise<void> = Promise.resolve();
  #reading: Promise<unknown> = Promise.resolve();
  #nextRead: Promise<number> | undefined;

  constructor(store: Store, options: RecordsOptions) {
    this.#store = store;
    this.#root = options.prefix;
    this.#log = options.log;
    this.#clock = options.clock ?? systemClock;
    this.#slots = new CommitSlots({
      store,
      clock: this.#clock,
      root: this.#root,
      ...given({ corner: options.corner }),
    });
    this.#signal =
      options.signal === undefined ? this.#stop.signal : AbortSignal.any([options.signal, this.#stop.signal]);
  }

  async start(timeoutMs: number): Promise<void> {
    const until = this.#clock.monotonic() + timeoutMs;
    for (let wait = 100; ; wait = Math.min(wait * 2, MAX_BACKOFF_MS)) {
      try {
        await this.#relist();
        break;
      } catch (err) {
        const permanent = !isAppError(err, "store.unavailable");
        if (permanent || this.#signal.aborted || this.#clock.monotonic() + wait > until) throw err;
        this.#log.error({ err: messageOf(err) }, "the store cannot be read yet; trying again");
        await this.#clock.sleep(wait, this.#signal);
      }
    }
    this.#feeding = this.#feed();
    background(this.#log, "feeding the records cache", this.#feeding);
    const stale = this.#slots.stale(this.#records.values()).slice(0, 100);
    if (stale.length > 0) background(this.#log, "removing old commit slots", this.#remove(stale));
  }

  async #remove(keys: readonly string[]): Promise<void> {
    await this.#store.txn({ compare: [], success: keys.map((key) => ({ type: "delete", key: utf8(key) })) });
  }

  async close(): Promise<void> {
    this.#stop.abort(new AppError("operation.cancelled", "the records cache was closed"));
    await this.#feeding;
  }

  revision(): number {
    return this.#gate.revision;
  }

  collection<T>(def: CollectionDef<T>): CollectionCache<T> {
    const known = this.#collections.get(def);
    // The map is keyed by the definition itself, so what it holds has that definition's type.
    if (known !== undefined) return known as CollectionCache<T>;
    if (!def.prefix.startsWith(this.#root) || !def.prefix.endsWith("/")) {
      throw new TypeError(`collection prefix ${def.prefix} must lie below ${this.#root} and end with "/"`);
    }
    const collection = new CollectionCache(def, this.#records.values(), this.#log);
    this.#collections.set(def, collection);
    return collection;
  }

  async transact<R>(change: (tx: Tx) => R, options: { signal?: AbortSignal } = {}): Promise<R> {
    const first = await this.#attempt(change, options.signal);
    if (first.done) return first.result;
    // Those who lost go on one after another: with a hundred of them in this process, each round has a winner.
    return this.#conflicts.run("conflict", async () => {
      for (let attempt = 1; attempt < MAX_ATTEMPTS; attempt++) {
        const next = await this.#attempt(change, options.signal);
        if (next.done) return next.result;
      }
      throw new AppError(
        "object.conflict",
        `the change was overtaken by others ${MAX_ATTEMPTS} times in a row; try again later`,
      );
    });
  }

  async fresh(options: { signal?: AbortSignal } = {}): Promise<void> {
    // A read that has begun may miss what was committed since: callers share the next one, not the running one.
    this.#nextRead ??= this.#planRead();
    const revision = await orAborted(this.#nextRead, options.signal);
    await this.#catchUp(revision, options.signal);
  }

  #planRead(): Promise<number> {
    const read = this.#reading.then(() => {
      this.#nextRead = undefined;
      const running = this.#store.revision({ signal: this.#signal });
      this.#reading = running.then(
        () => undefined,
        (err: unknown) => ignore(err, "told to those who wait for this read"),
      );
      return running;
    });
    return read;
  }

  async #attempt<R>(
    change: (tx: Tx) => R,
    signal: AbortSignal | undefined,
  ): Promise<{ done: true; result: R } | { done: false }> {
    const tx = new Transaction({
      root: this.#root,
      snapshot: this.#gate.revision,
      collection: (def) => this.collection(def),
    });
    const result = change(tx);
    if (result instanceof Promise)
      throw new TypeError("the change of a transaction must not be asynchronous");
    const request = tx.request();
    if (request === undefined) return { done: true, result };
    const answer = await this.#slots.txn(request, signal === undefined ? {} : { signal });
    if (!answer.succeeded) {
      await this.#catchUp(answer.revision, signal);
      return { done: false };
    }
    // Committed: from here on a cancelled caller still gets its result.
    await this.#catchUp(answer.revision, undefined, true);
    return { done: true, result };
  }

  /** Waits until the cache has everything up to `revision`. */
  async #catchUp(revision: number, signal: AbortSignal | undefined, committed = false): Promise<void> {
    const until = this.#clock.monotonic() + LAG_LIMIT_MS;
    for (let wait = PROBE_AFTER_MS; ; wait = Math.min(wait * 2, 1_000)) {
      if (await this.#gate.reached(revision, wait, this.#clock, signal)) return;
      if (this.#signal.aborted || this.#clock.monotonic() > until) {
        throw new AppError(
          "store.unavailable",
          committed
            ? `the change was stored as revision ${revision}, but this server does not see it yet`
            : `this server's cache lags behind the store: it is at ${this.#gate.revision}, not ${revision}`,
          { data: { revision, committed } },
        );
      }
      await this.#probe(revision);
    }
  }

  /**
   * The store moves on without a word to this watch when others write outside our prefix. If no key of ours is
   * newer than the cache and there are as many as it holds, then nothing of ours changed: one that was deleted
   * would lower the number, one that took its place would be newer.
   */
  async #probe(revision: number): Promise<void> {
    const shown = this.#gate.revision;
    try {
      const answer = await this.#store.range(
        { ...this.#span(), revision, minModRevision: shown + 1, keysOnly: true },
        { signal: this.#signal },
      );
      const same = answer.kvs.length === 0 && answer.count === this.#records.size;
      if (same && this.#gate.revision === shown) this.#gate.advance(revision);
    } catch (err) {
      ignore(err, "the watch may still catch up; whoever waits is told after the limit");
    }
  }

  async #feed(): Promise<void> {
    let wait = 0;
    let relist = false;
    while (!this.#signal.aborted) {
      try {
        if (wait > 0) {
          await this.#clock.sleep(wait, this.#signal);
          // A store restored from a backup starts lower: its future is not ours.
          relist ||= (await this.#store.revision({ signal: this.#signal })) < this.#gate.revision;
        }
        if (relist) await this.#relist();
        relist = await this.#follow(() => {
          wait = 0;
        });
      } catch (err) {
        if (this.#signal.aborted) return;
        wait = Math.min(Math.max(wait * 2, 100), MAX_BACKOFF_MS);
        this.#log.error({ err: messageOf(err), retryMs: wait }, "the watch of the store ended; trying again");
      }
    }
  }

  /** Follows the watch to its end; true when it ended with a gap. */
  async #follow(onReady: () => void): Promise<boolean> {
    const watch = this.#store.watch({
      ...this.#span(),
      startRevision: this.#gate.revision + 1,
      progress: true,
      signal: this.#signal,
    });
    for await (const batch of watch) {
      switch (batch.type) {
        case "ready":
          onReady();
          break;
        case "events":
          for (let i = 0; i < batch.events.length;) {
            const revision = batch.events[i]?.kv.modRevision ?? 0;
            const changes: [string, RawRecord | undefined][] = [];
            for (; batch.events[i]?.kv.modRevision === revision; i++) {
              const event = batch.events[i];
              if (event === undefined) break;
              const raw = toRaw(event.kv);
              changes.push([raw.key, event.type === "delete" ? undefined : raw]);
            }
            this.#apply(changes, () => this.#gate.advance(revision));
          }
          this.#gate.advance(batch.revision);
          break;
        case "progress":
          this.#gate.advance(batch.revision);
          break;
        case "gap":
          return true;
      }
    }
    return false;
  }

  /** Lists all records and applies the difference, so that listeners learn what a gap hid. */
  async #relist(): Promise<void> {
    const found = new Map<string, RawRecord>();
    const revision = await readAll(this.#store, this.#span(), this.#signal, (kvs) => {
      for (const kv of kvs) {
        const raw = toRaw(kv);
        found.set(raw.key, raw);
      }
    });
    const changes: [string, RawRecord | undefined][] = [];
    for (const key of this.#records.keys()) if (!found.has(key)) changes.push([key, undefined]);
    for (const [key, raw] of found) {
      const known = this.#records.get(key);
      if (known?.revision !== raw.revision || known.createRevision !== raw.createRevision) {
        changes.push([key, raw]);
      }
    }
    this.#apply(changes, () => this.#gate.reset(revision));
  }

  /** The changes of one revision become visible together, then the listeners hear of them. */
  #apply(changes: readonly [string, RawRecord | undefined][], move: () => void): void {
    const tell: (() => void)[] = [];
    for (const [key, raw] of changes) {
      if (raw === undefined) this.#records.delete(key);
      else this.#records.set(key, raw);
      for (const collection of this.#collections.values()) {
        if (key.startsWith(collection.prefix)) tell.push(collection.apply(key, raw));
      }
    }
    move();
    for (const call of tell) call();
  }

  #span(): { key: Uint8Array; end: Uint8Array } {
    const key = utf8(this.#root);
    return { key, end: prefixEnd(key) };
  }
}

/** The shared read goes on for the others when one of its callers gives up. */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

function toRaw(kv: KeyValue): RawRecord {
  return {
    key: Buffer.from(kv.key).toString("utf8"),
    value: kv.value,
    createRevision: kv.createRevision,
    revision: kv.modRevision,
    version: kv.version,
    lease: kv.lease,
  };
}
