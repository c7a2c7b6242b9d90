// One collection in memory: raw records in key order, decoded when first asked for.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { FailureLog } from "@gpve/kit/background.ts";
import type { Collection, CollectionDef, Entry } from "./port.ts";
import { compareUtf8 } from "./byte-order.ts";

/** A stored record as bytes, shared by all collections that hold it. */
export interface RawRecord {
  readonly key: string;
  readonly value: Uint8Array;
  readonly createRevision: number;
  readonly revision: number;
  readonly version: number;
  readonly lease: bigint;
}

type Listener<T> = (id: string, entry: Entry<T> | undefined, previous: Entry<T> | undefined) => void;

interface Slot<T> {
  readonly id: string;
  raw: RawRecord;
  entry: Entry<T> | undefined;
}

/** The part of a collection that the cache drives without knowing its type. */
export interface CollectionFeed {
  readonly prefix: string;
  /** Applies a change and returns the call that tells the listeners, to be made when the revision is complete. */
  apply(key: string, raw: RawRecord | undefined): () => void;
}

export class CollectionCache<T> implements Collection<T>, CollectionFeed {
  readonly def: CollectionDef<T>;
  readonly #log: FailureLog;
  readonly #slots = new Map<string, Slot<T>>();
  readonly #ordered: Slot<T>[];
  readonly #leased = new Map<string, RawRecord>();
  readonly #listeners = new Set<Listener<T>>();
  readonly #unreadable = new WeakSet<RawRecord>();
  #list: readonly Entry<T>[] | undefined;

  constructor(def: CollectionDef<T>, records: Iterable<RawRecord>, log: FailureLog) {
    this.def = def;
    this.#log = log;
    for (const raw of records) {
      if (!raw.key.startsWith(def.prefix)) continue;
      const id = raw.key.slice(def.prefix.length);
      this.#slots.set(id, { id, raw, entry: undefined });
      if (raw.lease !== 0n) this.#leased.set(id, raw);
    }
    this.#ordered = [...this.#slots.values()].toSorted((a, b) => compareUtf8(a.id, b.id));
  }

  get prefix(): string {
    return this.def.prefix;
  }

  get(id: string): Entry<T> | undefined {
    const slot = this.#slots.get(id);
    return slot === undefined ? undefined : this.#decode(slot);
  }

  list(): readonly Entry<T>[] {
    this.#list ??= Object.freeze(
      this.def.allOrNothing === true
        ? this.#ordered.map((slot) => this.#decode(slot))
        : this.#ordered.flatMap((slot) => this.#readable(slot) ?? []),
    );
    return this.#list;
  }

  raw(id: string): RawRecord | undefined {
    return this.#slots.get(id)?.raw;
  }

  /** Records that may vanish without anyone deleting them. */
  leased(): Iterable<RawRecord> {
    return this.#leased.values();
  }

  onChange(listener: Listener<T>): () => void {
    const own: Listener<T> = (...change) => listener(...change);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  apply(key: string, raw: RawRecord | undefined): () => void {
    const id = key.slice(this.def.prefix.length);
    const slot = this.#slots.get(id);
    const previous = slot === undefined ? undefined : { ...slot };
    this.#list = undefined;
    if (raw === undefined || raw.lease === 0n) this.#leased.delete(id);
    else this.#leased.set(id, raw);
    if (raw === undefined) {
      if (slot === undefined) return () => undefined;
      this.#slots.delete(id);
      this.#ordered.splice(this.#position(id), 1);
    } else if (slot === undefined) {
      const added: Slot<T> = { id, raw, entry: undefined };
      this.#slots.set(id, added);
      this.#ordered.splice(this.#position(id), 0, added);
    } else {
      slot.raw = raw;
      slot.entry = undefined;
    }
    const current = raw === undefined ? undefined : { id, raw, entry: undefined };
    return () => this.#tell(id, current, previous);
  }

  #tell(id: string, current: Slot<T> | undefined, previous: Slot<T> | undefined): void {
    if (this.#listeners.size === 0) return;
    // The slot may have moved on already; if not, share its decoded entry.
    const slot = this.#slots.get(id);
    const shared = slot !== undefined && slot.raw === current?.raw ? slot : current;
    const after = shared === undefined ? undefined : this.#readable(shared);
    const before = previous === undefined ? undefined : this.#readable(previous);
    for (const listener of this.#listeners) {
      try {
        listener(id, after, before);
      } catch (err) {
        this.#log.error({ err: messageOf(err), prefix: this.prefix, id }, "a listener of records failed");
      }
    }
  }

  /** undefined = it cannot be read, which is said once for each state it has. */
  #readable(slot: Slot<T>): Entry<T> | undefined {
    if (this.#unreadable.has(slot.raw)) return undefined;
    try {
      return this.#decode(slot);
    } catch (err) {
      this.#unreadable.add(slot.raw);
      this.#log.error({ err: messageOf(err), key: slot.raw.key }, "a record cannot be read and is left out");
      return undefined;
    }
  }

  /** Where `id` is, or belongs. */
  #position(id: string): number {
    let low = 0;
    let high = this.#ordered.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareUtf8(this.#ordered[middle]?.id ?? "", id) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #decode(slot: Slot<T>): Entry<T> {
    slot.entry ??= decodeEntry(this.def, slot.id, slot.raw);
    return slot.entry;
  }
}

function decodeEntry<T>(def: CollectionDef<T>, id: string, raw: RawRecord): Entry<T> {
  try {
    const value = deepFreeze(def.decode(JSON.parse(Buffer.from(raw.value).toString("utf8"))));
    const { createRevision, revision, version } = raw;
    return Object.freeze({ id, value, createRevision, revision, version });
  } catch (err) {
    if (err instanceof AppError && err.code === "data.newer_version") throw err;
    throw new AppError("internal.error", `the stored record ${raw.key} cannot be read: ${messageOf(err)}`, {
      cause: err,
      data: { key: raw.key },
    });
  }
}

/** Cached values are shared by all readers: a reader that changed one would change the truth for all. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  if (ArrayBuffer.isView(value)) return value;
  Object.freeze(value);
  for (const inner of Object.values(value)) deepFreeze(inner);
  return value;
}
