// Records without a store, for unit tests of code that only needs typed reads, writes and changes.
import type { Collection, CollectionDef, Entry, Records, Tx } from "@gpve/store/records/port.ts";

type Listener = (id: string, entry: Entry<unknown> | undefined, previous: Entry<unknown> | undefined) => void;

interface Write {
  readonly def: CollectionDef<unknown>;
  readonly id: string;
  readonly json: string | undefined;
}

export class MemoryRecords implements Records {
  #revision = 1;
  readonly #data = new Map<string, { json: string; created: number; revision: number; version: number }>();
  readonly #collections = new Map<
    CollectionDef<unknown>,
    { collection: Collection<unknown>; listeners: Set<Listener> }
  >();
  /** By definition: what was read already, and the list of all, until something changes. */
  readonly #read = new Map<
    CollectionDef<unknown>,
    { entries: Map<string, Entry<unknown>>; list?: readonly Entry<unknown>[] }
  >();

  collection<T>(def: CollectionDef<T>): Collection<T> {
    const known = this.#collections.get(def as CollectionDef<unknown>);
    if (known !== undefined) return known.collection as Collection<T>;
    const listeners = new Set<Listener>();
    const collection: Collection<unknown> = {
      def: def as CollectionDef<unknown>,
      get: (id) => this.#get(def, id),
      list: () => this.#list(def),
      onChange: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    };
    this.#collections.set(def as CollectionDef<unknown>, { collection, listeners });
    return collection as Collection<T>;
  }

  async transact<R>(change: (tx: Tx) => R): Promise<R> {
    const writes = new Map<string, Write>();
    const tx: Tx = {
      get: (def, id) => {
        const pending = writes.get(def.prefix + id);
        if (pending === undefined) return this.#get(def, id);
        if (pending.json === undefined) return undefined;
        return {
          id,
          value: def.decode(JSON.parse(pending.json)),
          createRevision: 0,
          revision: 0,
          version: 0,
        };
      },
      has: (def, id) => {
        const pending = writes.get(def.prefix + id);
        return pending === undefined ? this.#data.has(def.prefix + id) : pending.json !== undefined;
      },
      list: (def) => {
        const stored = new Map(this.#list(def).map((entry) => [entry.id, entry]));
        for (const [key, { id }] of writes) {
          if (!key.startsWith(def.prefix)) continue;
          const entry = tx.get(def, id);
          if (entry === undefined) stored.delete(id);
          else stored.set(id, entry);
        }
        return [...stored.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
      },
      put: (def, id, value) => {
        const json = JSON.stringify(def.encode === undefined ? value : def.encode(value));
        writes.set(def.prefix + id, { def: def as CollectionDef<unknown>, id, json });
      },
      delete: (def, id) => {
        writes.set(def.prefix + id, { def: def as CollectionDef<unknown>, id, json: undefined });
      },
    };
    // As real records do: whoever was beaten looks again.
    for (;;) {
      const seen = this.#revision;
      const result = change(tx);
      await Promise.resolve();
      if (this.#revision === seen) {
        this.#write(writes);
        return result;
      }
      writes.clear();
    }
  }

  #write(writes: ReadonlyMap<string, Write>): void {
    if (writes.size > 0) this.#revision++;
    for (const [key, { def, id, json }] of writes) {
      const previous = this.#get(def, id);
      const old = this.#data.get(key);
      if (json === undefined) this.#data.delete(key);
      else {
        this.#data.set(key, {
          json,
          created: old?.created ?? this.#revision,
          revision: this.#revision,
          version: (old?.version ?? 0) + 1,
        });
      }
      for (const [known, cache] of this.#read) {
        if (known.prefix !== def.prefix) continue;
        cache.entries.delete(id);
        delete cache.list;
      }
      for (const [known, { listeners }] of this.#collections) {
        if (known.prefix !== def.prefix) continue;
        for (const listener of listeners) listener(id, this.#get(def, id), previous);
      }
    }
  }

  fresh(): Promise<void> {
    return Promise.resolve();
  }

  revision(): number {
    return this.#revision;
  }

  #get<T>(def: CollectionDef<T>, id: string): Entry<T> | undefined {
    const { entries } = this.#cacheOf(def);
    const known = entries.get(id);
    if (known !== undefined) return known as Entry<T>;
    const row = this.#data.get(def.prefix + id);
    if (row === undefined) return undefined;
    const { created: createRevision, revision, version } = row;
    const entry = { id, value: def.decode(JSON.parse(row.json)), createRevision, revision, version };
    entries.set(id, entry);
    return entry;
  }

  #list<T>(def: CollectionDef<T>): readonly Entry<T>[] {
    const cache = this.#cacheOf(def);
    cache.list ??= Object.freeze(
      [...this.#data.keys()]
        .filter((key) => key.startsWith(def.prefix))
        .toSorted()
        .flatMap((key) => this.#readable(def, key.slice(def.prefix.length)) ?? []),
    );
    return cache.list as readonly Entry<T>[];
  }

  #readable<T>(def: CollectionDef<T>, id: string): Entry<T> | undefined {
    try {
      return this.#get(def, id);
    } catch (err) {
      if (def.allOrNothing === true) throw err;
      return undefined;
    }
  }

  #cacheOf<T>(def: CollectionDef<T>) {
    const key = def as CollectionDef<unknown>;
    const cache = this.#read.get(key) ?? { entries: new Map<string, Entry<unknown>>() };
    this.#read.set(key, cache);
    return cache;
  }
}
