// A transaction one can read one's own writes in. Over a real transaction it passes writes on; over the cache it
// keeps them to itself, which is what a plan is.
import type { CollectionDef, Entry, Tx } from "@gpve/store/records/port.ts";
import type { Reader } from "./adapter.ts";

type Writes = Map<string, Entry<unknown> | undefined>;

export class OverlayTx implements Tx {
  readonly #below: Reader;
  readonly #through: Tx | undefined;
  readonly #writes = new Map<CollectionDef<unknown>, Writes>();

  constructor(below: Reader, through?: Tx) {
    this.#below = below;
    this.#through = through;
  }

  get<T>(collection: CollectionDef<T>, id: string): Entry<T> | undefined {
    const writes = this.#writes.get(collection as CollectionDef<unknown>);
    if (writes?.has(id) === true) return writes.get(id) as Entry<T> | undefined;
    return this.#below.get(collection, id);
  }

  has<T>(collection: CollectionDef<T>, id: string): boolean {
    const writes = this.#writes.get(collection as CollectionDef<unknown>);
    if (writes?.has(id) === true) return writes.get(id) !== undefined;
    return this.#through?.has(collection, id) ?? this.#below.get(collection, id) !== undefined;
  }

  list<T>(collection: CollectionDef<T>): readonly Entry<T>[] {
    const stored = this.#below.list(collection);
    const writes = this.#writes.get(collection as CollectionDef<unknown>);
    if (writes === undefined || writes.size === 0) return stored;
    const kept = stored.filter((entry) => !writes.has(entry.id));
    const written = [...writes.values()].filter((entry) => entry !== undefined) as Entry<T>[];
    return [...kept, ...written].toSorted((a, b) => (a.id < b.id ? -1 : Number(a.id > b.id)));
  }

  put<T>(collection: CollectionDef<T>, id: string, value: T, options?: { lease?: bigint }): void {
    const before = this.get(collection, id);
    // Revision 0 stands for "this transaction"; its number is known only after the commit.
    this.#record(collection, id, {
      id,
      value,
      createRevision: before?.createRevision ?? 0,
      revision: 0,
      version: (before?.version ?? 0) + 1,
    });
    this.#through?.put(collection, id, value, options);
  }

  delete<T>(collection: CollectionDef<T>, id: string): void {
    this.#record(collection, id, undefined);
    this.#through?.delete(collection, id);
  }

  #record<T>(collection: CollectionDef<T>, id: string, entry: Entry<T> | undefined): void {
    const key = collection as CollectionDef<unknown>;
    const writes = this.#writes.get(key) ?? new Map<string, Entry<unknown> | undefined>();
    writes.set(id, entry);
    this.#writes.set(key, writes);
  }
}
