// Where the engine lets somebody follow what it commits, and hold answers back until he has it too.
import type { KeyValue, StoreEvent } from "../port.ts";
import type { Sync } from "../sqlite/wal-sync.ts";

export interface StoredLease {
  readonly id: bigint;
  readonly ttlSeconds: number;
}

/** What one transaction of SQLite changed: that of several writes, each with a revision of its own, or none. */
export interface CommittedChange {
  /** The newest revision after it. */
  readonly revision: number;
  /** In order. */
  readonly events: readonly StoreEvent[];
  readonly granted: readonly StoredLease[];
  readonly revoked: readonly bigint[];
  /** Where it compacted: up to there. */
  readonly compacted?: number;
}

/** What can be read of the database, for who begins to follow it. */
export interface HistorySource {
  compacted(): number;
  /** Over what is readable at a revision, or happened since `compacted`. */
  hash(revision: number, compacted: number): number;
  /** Rows from `from` up to and including `to`. */
  between(from: number, to: number): Iterable<KeyValue>;
  /** All rows that somebody needs who has nothing. */
  all(revision: number, compacted: number): Iterable<KeyValue>;
  leases(): readonly StoredLease[];
}

export interface CommitTap {
  /** Once, before anything else. */
  attach(source: HistorySource, revision: number): void;
  /** After each commit, in order; it is not durable yet. */
  committed(change: CommittedChange): void;
  /** Durable, and where that is wanted, confirmed by who follows. */
  gate(sync: Sync): Sync;
  /** Nobody is left who would hear an answer: what waits goes. */
  release(): void;
}
