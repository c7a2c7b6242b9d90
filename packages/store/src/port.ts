// The Store port: etcd's data model and guarantees, as one small interface.
//
// Keys and values are bytes; keys are ordered by memcmp. Every write transaction gets one new, strictly
// growing revision. A reader may ask for any revision that has not been compacted away. The engines know
// nothing of gpve's records: the SQLite one will also serve Kubernetes API servers over the etcd protocol.

export type Bytes = Uint8Array;

export interface KeyValue {
  readonly key: Bytes;
  readonly value: Bytes;
  readonly createRevision: number;
  readonly modRevision: number;
  /** 1 for the first write after creation. */
  readonly version: number;
  /** 0n = no lease. */
  readonly lease: bigint;
}

export interface RangeRequest {
  readonly key: Bytes;
  /** Exclusive end; absent = exactly `key`. `prefixEnd(key)` makes a prefix; a single 0 byte = to the end. */
  readonly end?: Bytes;
  /** 0 or absent = no limit. */
  readonly limit?: number;
  /** Read as of this revision. Throws `store.compacted` when it is gone. */
  readonly revision?: number;
  readonly keysOnly?: boolean;
  readonly countOnly?: boolean;
  readonly descending?: boolean;
  /** Return only keys changed at or after this revision. `count` still counts all keys of the range. */
  readonly minModRevision?: number;
}

export interface RangeResponse {
  readonly kvs: readonly KeyValue[];
  /** More keys exist past the limit. Continue at last key + 0 byte with the same `revision`. */
  readonly more: boolean;
  /** All keys in the range, not only those returned. */
  readonly count: number;
  /** The newest revision when this was read, even for a read of an older one. */
  readonly revision: number;
}

export type CompareResult = "equal" | "greater" | "less" | "notEqual";

/**
 * `end` makes the comparison hold for every key of a range. An absent key, or an empty range, compares as version,
 * revisions and lease 0; comparing a value with it is false.
 */
export type Compare = { readonly key: Bytes; readonly end?: Bytes; readonly result: CompareResult } & (
  | { readonly target: "version"; readonly version: number }
  | { readonly target: "createRevision"; readonly createRevision: number }
  | { readonly target: "modRevision"; readonly modRevision: number }
  | { readonly target: "value"; readonly value: Bytes }
  | { readonly target: "lease"; readonly lease: bigint }
);

export type Op =
  | ({ readonly type: "range" } & RangeRequest)
  | {
      readonly type: "put";
      readonly key: Bytes;
      readonly value: Bytes;
      readonly lease?: bigint;
      readonly prevKv?: boolean;
      readonly ignoreValue?: boolean;
      readonly ignoreLease?: boolean;
    }
  | { readonly type: "delete"; readonly key: Bytes; readonly end?: Bytes; readonly prevKv?: boolean }
  | ({ readonly type: "txn" } & TxnRequest);

export type OpResponse =
  | ({ readonly type: "range" } & RangeResponse)
  | { readonly type: "put"; readonly prevKv?: KeyValue }
  | { readonly type: "delete"; readonly deleted: number; readonly prevKvs: readonly KeyValue[] }
  | ({ readonly type: "txn" } & TxnResponse);

/**
 * At most 128 comparisons and 128 operations a branch, 1.5 MiB together, and no key put twice or both put and
 * deleted: etcd's limits hold for every engine. A transaction that changes nothing makes no new revision.
 */
export interface TxnRequest {
  readonly compare: readonly Compare[];
  readonly success: readonly Op[];
  readonly failure?: readonly Op[];
}

export interface TxnResponse {
  readonly succeeded: boolean;
  readonly responses: readonly OpResponse[];
  readonly revision: number;
}

export interface WatchRequest {
  readonly key: Bytes;
  readonly end?: Bytes;
  /** Nothing else in the range is wanted. A store need not heed it: who must not see the rest looks for himself. */
  readonly only?: readonly { readonly start: Bytes; readonly end?: Bytes }[];
  /** First revision to deliver. Absent = from now on. */
  readonly startRevision?: number;
  readonly prevKv?: boolean;
  /** Also tell how far the store moved on without a matching event: at once on SQLite, now and then on etcd. */
  readonly progress?: boolean;
  readonly signal: AbortSignal;
}

export interface StoreEvent {
  readonly type: "put" | "delete";
  /** For a delete: key and modRevision of the deletion, empty value. */
  readonly kv: KeyValue;
  readonly prevKv?: KeyValue;
}

/**
 * What a watch yields. `ready` first, once, with the revision the watch starts after. `gap` means events were
 * lost to compaction: the watcher must list again; the watch ends after it. A watch survives reconnects without
 * loss or repetition; it ends only by its signal (returns), a gap, or an error (throws).
 * `events` holds whole revisions: all there is up to and including `revision`.
 */
export type WatchBatch =
  | { readonly type: "ready"; readonly revision: number }
  | { readonly type: "events"; readonly revision: number; readonly events: readonly StoreEvent[] }
  | { readonly type: "progress"; readonly revision: number }
  | { readonly type: "gap"; readonly compactRevision: number };

/** An open watch. */
export interface Watching extends AsyncIterable<WatchBatch> {
  /**
   * Asks for one `progress` batch as soon as the watch has told everything there is, also when nothing is new. It
   * follows the events it speaks of.
   */
  requestProgress(): void;
}

export interface LeaseStatus {
  readonly id: bigint;
  /** Seconds left; -1 = expired or unknown. */
  readonly ttlSeconds: number;
  readonly grantedTtlSeconds: number;
  readonly keys: readonly Bytes[];
}

export interface Store {
  /**
   * True for a store across a network: a `txn` may fail with `store.unavailable` and `data.ambiguous`, and have
   * been done all the same. Whoever must know makes its outcome readable, as records do.
   */
  readonly answersMayBeLost?: boolean;
  range(request: RangeRequest, options?: CallOptions): Promise<RangeResponse>;
  /** Durable when it resolves: an answered write survives kill -9 and power loss. */
  txn(request: TxnRequest, options?: CallOptions): Promise<TxnResponse>;
  watch(request: WatchRequest): Watching;
  /** The newest revision, confirmed by quorum. */
  revision(options?: CallOptions): Promise<number>;
  compact(revision: number, options?: CallOptions): Promise<void>;
  leaseGrant(ttlSeconds: number, id?: bigint): Promise<{ id: bigint; ttlSeconds: number }>;
  /** Returns the new remaining seconds; throws `object.not_found` when the lease has ended. */
  leaseKeepAlive(id: bigint): Promise<number>;
  leaseRevoke(id: bigint): Promise<void>;
  leaseStatus(id: bigint): Promise<LeaseStatus>;
  leases(): Promise<readonly bigint[]>;
  /** What only the process that holds the data can do; absent for a store across a network. */
  readonly upkeep?: StoreUpkeep;
  close(): Promise<void>;
}

export interface StoreUpkeep {
  /** Bytes on disk, and how many of them are in use. */
  size(): { readonly bytes: number; readonly usedBytes: number };
  /** Gives back what compaction freed. Other calls wait meanwhile. */
  defragment(): Promise<void>;
  /** The sum over what is readable at a revision (0 = the newest): equal for stores with an equal history. */
  hash(revision: number): Promise<StoreHash>;
}

export interface StoreHash {
  readonly hash: number;
  readonly revision: number;
  readonly compactRevision: number;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
}
