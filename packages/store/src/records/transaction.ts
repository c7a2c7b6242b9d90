// One attempt of an optimistic transaction: remembers what was read, collects what is to be written, and states
// both as a store transaction.
//
// What guards a read:
// - a key read: its mod revision is still the same (or its version still 0 when it was absent);
// - a collection listed: no key below its prefix was changed after the snapshot (one range comparison). A deletion
//   leaves nothing behind to compare, so every deletion made here also writes a mark at
//   <root>.deleted/<directory of the key>, and a list compares the marks below its prefix as well. Records tied to
//   a lease vanish without a mark; a list compares each of those by itself.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Compare, Op, TxnRequest } from "../port.ts";
import { prefixEnd, utf8 } from "../keys.ts";
import { MAX_TXN_OPS } from "../txn-rules.ts";
import { compareUtf8 } from "./byte-order.ts";
import { type CollectionCache, deepFreeze } from "./collection-cache.ts";
import type { CollectionDef, Entry, Tx } from "./port.ts";

interface Change {
  readonly id: string;
  /** Encoded JSON; undefined = delete. */
  readonly json: string | undefined;
  readonly lease: bigint | undefined;
}

export interface TransactionContext {
  /** All records live below this, ends with "/". */
  readonly root: string;
  /** The revision the reads are taken from. */
  readonly snapshot: number;
  readonly collection: <T>(def: CollectionDef<T>) => CollectionCache<T>;
}

/** More single comparisons than this are made coarser: whole directories. */
const MAX_SINGLE_READS = 64;
/** One is kept for the commit slot. */
const MAX_OPS = MAX_TXN_OPS - 1;

export class Transaction implements Tx {
  readonly #ctx: TransactionContext;
  /** Key read -> its mod revision, 0 = absent. */
  readonly #reads = new Map<string, number>();
  readonly #lists = new Set<string>();
  /** Leased records read or listed: key -> mod revision. */
  readonly #leased = new Map<string, number>();
  readonly #changes = new Map<string, Change>();

  constructor(ctx: TransactionContext) {
    this.#ctx = ctx;
  }

  get<T>(def: CollectionDef<T>, id: string): Entry<T> | undefined {
    const key = def.prefix + requireId(id);
    const collection = this.#ctx.collection(def);
    const stored = collection.get(id);
    this.#reads.set(key, stored?.revision ?? 0);
    const raw = collection.raw(id);
    if (raw !== undefined && raw.lease !== 0n) this.#leased.set(key, raw.revision);
    const change = this.#changes.get(key);
    return change === undefined ? stored : pending(def, change, stored);
  }

  has<T>(def: CollectionDef<T>, id: string): boolean {
    const key = def.prefix + requireId(id);
    const raw = this.#ctx.collection(def).raw(id);
    this.#reads.set(key, raw?.revision ?? 0);
    if (raw !== undefined && raw.lease !== 0n) this.#leased.set(key, raw.revision);
    const change = this.#changes.get(key);
    return change === undefined ? raw !== undefined : change.json !== undefined;
  }

  list<T>(def: CollectionDef<T>): readonly Entry<T>[] {
    const collection = this.#ctx.collection(def);
    this.#lists.add(def.prefix);
    for (const raw of collection.leased()) this.#leased.set(raw.key, raw.revision);
    const own = [...this.#changes].filter(([key]) => key.startsWith(def.prefix));
    if (own.length === 0) return collection.list();
    const merged = new Map(collection.list().map((entry) => [entry.id, entry]));
    for (const [key, change] of own) {
      const id = key.slice(def.prefix.length);
      const entry = pending(def, change, merged.get(id));
      if (entry === undefined) merged.delete(id);
      else merged.set(id, entry);
    }
    return [...merged.values()].toSorted((a, b) => compareUtf8(a.id, b.id));
  }

  put<T>(def: CollectionDef<T>, id: string, value: T, options: { lease?: bigint } = {}): void {
    const key = def.prefix + requireId(id);
    this.#ctx.collection(def);
    const json = JSON.stringify(def.encode === undefined ? value : def.encode(value));
    this.#changes.set(key, { id, json, lease: options.lease });
  }

  delete<T>(def: CollectionDef<T>, id: string): void {
    const key = def.prefix + requireId(id);
    this.#ctx.collection(def);
    this.#changes.set(key, { id, json: undefined, lease: undefined });
  }

  /** Undefined when there is nothing to write: what was read was one consistent snapshot already. */
  request(): TxnRequest | undefined {
    if (this.#changes.size === 0) return undefined;
    const success = this.#operations();
    const compare = this.#comparisons();
    if (Math.max(success.length, compare.length) > MAX_OPS) {
      throw new AppError(
        "request.too_large",
        `one change touches ${success.length} records and depends on ${compare.length}; at most ${MAX_OPS} fit in a transaction`,
      );
    }
    return { compare, success };
  }

  #operations(): Op[] {
    const marks = new Set<string>();
    const ops: Op[] = [];
    for (const [key, { json, lease }] of this.#changes) {
      if (json === undefined) {
        ops.push({ type: "delete", key: utf8(key) });
        marks.add(this.#mark(directory(key)));
      } else {
        const op = { type: "put", key: utf8(key), value: utf8(json) } as const;
        ops.push(lease === undefined ? op : { ...op, lease });
      }
    }
    for (const mark of marks) ops.push({ type: "put", key: utf8(mark), value: utf8("") });
    return ops;
  }

  #comparisons(): Compare[] {
    const lists = new Set(this.#lists);
    const single = new Map([...this.#leased, ...this.#reads]);
    const covered = (key: string): boolean => [...lists].some((prefix) => key.startsWith(prefix));
    if (single.size > MAX_SINGLE_READS) {
      for (const key of this.#reads.keys()) lists.add(directory(key));
    }
    const compare: Compare[] = [];
    for (const [key, revision] of single) {
      // A list already guards all its members but the leased ones.
      if (!this.#leased.has(key) && covered(key)) continue;
      compare.push({ key: utf8(key), target: "modRevision", modRevision: revision, result: "equal" });
    }
    for (const prefix of lists) {
      compare.push(this.#unchanged(prefix), this.#unchanged(this.#mark(prefix)));
    }
    return compare;
  }

  #unchanged(prefix: string): Compare {
    const key = utf8(prefix);
    return {
      key,
      end: prefixEnd(key),
      target: "modRevision",
      modRevision: this.#ctx.snapshot + 1,
      result: "less",
    };
  }

  #mark(prefix: string): string {
    return `${this.#ctx.root}.deleted/${prefix.slice(this.#ctx.root.length)}`;
  }
}

function directory(key: string): string {
  return key.slice(0, key.lastIndexOf("/") + 1);
}

function requireId(id: string): string {
  if (id === "") throw new AppError("request.invalid", "a record needs an id");
  return id;
}

/** What a transaction sees of its own write. */
function pending<T>(
  def: CollectionDef<T>,
  change: Change,
  stored: Entry<T> | undefined,
): Entry<T> | undefined {
  if (change.json === undefined) return undefined;
  return {
    id: change.id,
    value: deepFreeze(def.decode(JSON.parse(change.json))),
    createRevision: stored?.createRevision ?? 0,
    revision: stored?.revision ?? 0,
    version: (stored?.version ?? 0) + 1,
  };
}
