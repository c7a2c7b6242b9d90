// Typed JSON records on a Store: what application code reads and writes.
//
// Reads come from memory (a watch-fed cache). `transact` reads and writes optimistically: every key read is
// compared at commit, and the change function runs again when someone else was quicker. When `transact`
// resolves, the cache of this process already shows the write.

export interface CollectionDef<T> {
  /** Key prefix inside the store, ends with "/": "/gpve/access/users/". */
  readonly prefix: string;
  /** Parses stored JSON; throws on a shape of the future. Also the place for upgrades of old shapes. */
  readonly decode: (json: unknown) => T;
  readonly encode?: (value: T) => unknown;
  /**
   * Reading all fails when one record cannot be read, for collections where one that is missing changes what the others
   * mean, such as permissions. Otherwise such a record is left out and named in the log.
   */
  readonly allOrNothing?: true;
}

export interface Entry<T> {
  readonly id: string;
  readonly value: T;
  readonly createRevision: number;
  readonly revision: number;
  readonly version: number;
}

export interface Collection<T> {
  readonly def: CollectionDef<T>;
  /** Throws when the record cannot be read. */
  get(id: string): Entry<T> | undefined;
  /** Sorted by id (byte order). The array is shared and frozen: never mutate. Same reference until a change. */
  list(): readonly Entry<T>[];
  /** Called after every applied change, in order. `entry` undefined = gone, or no more to be read. Returns the unsubscribe. */
  onChange(
    listener: (id: string, entry: Entry<T> | undefined, previous: Entry<T> | undefined) => void,
  ): () => void;
}

export interface Tx {
  get<T>(collection: CollectionDef<T>, id: string): Entry<T> | undefined;
  /** Whether there is such a record, readable or not. */
  has<T>(collection: CollectionDef<T>, id: string): boolean;
  /** Reads the whole collection; the transaction then also fails on any change or insertion in it. */
  list<T>(collection: CollectionDef<T>): readonly Entry<T>[];
  put<T>(collection: CollectionDef<T>, id: string, value: T, options?: { lease?: bigint }): void;
  delete<T>(collection: CollectionDef<T>, id: string): void;
}

export interface Records {
  /** Same definition object, same collection. */
  collection<T>(def: CollectionDef<T>): Collection<T>;
  /** `change` must be pure apart from `tx`: it may run several times. Its throw aborts and is passed on. */
  transact<R>(change: (tx: Tx) => R, options?: { signal?: AbortSignal }): Promise<R>;
  /** Resolves when the cache has everything committed before this call, at whatever server. */
  fresh(options?: { signal?: AbortSignal }): Promise<void>;
  /** The revision the cache shows. */
  revision(): number;
}
