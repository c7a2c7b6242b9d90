// The Store on SQLite: one file, one process, etcd's semantics.
//
// Writes that arrive in the same turn of the event loop share one SQLite transaction, and those that are committed
// while the disk is busy share one sync; each stands on its own savepoint and gets its own revision. Nothing is answered
// or told to watchers before it is durable, reads of it neither. Reads run between batches and never see half of one.
import type { DatabaseSync } from "node:sqlite";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { newLeaseId } from "../lease-id.ts";
import type {
  CallOptions,
  LeaseStatus,
  RangeRequest,
  RangeResponse,
  Store,
  StoreEvent,
  TxnRequest,
  TxnResponse,
  StoreUpkeep,
  WatchRequest,
  Watching,
} from "../port.ts";
import { checkTxn, readsOnly, requireKey } from "../txn-rules.ts";
import { compacted, futureRevision, noLease, refusal, requireTtl } from "../refusals.ts";
import type { CommitTap } from "../standby/commit-tap.ts";
import { type ApplyContext, type Aside, applyTxn, deleteKeys, nothingAside, readRange } from "./apply.ts";
import { openDatabase, pagesIn, sizeOf } from "./database.ts";
import { DurableOrder, type Waiting } from "./durable-order.ts";
import { hashHistory, historySource } from "./history-hash.ts";
import { LeaseClock } from "./lease-clock.ts";
import { fromSqlite } from "./sqlite-errors.ts";
import { Room } from "./room.ts";
import { Tables } from "./tables.ts";
import { openWalSync, type WalSync } from "./wal-sync.ts";
import { WatchHub, closedError } from "./watch-hub.ts";

export interface SqliteOptions {
  /** File name, or ":memory:". */
  readonly path: string;
  readonly clock?: Clock;
  /** Refuse to grow beyond this, as a full disk would; puts end before, so that deletes and compactions find room (room.ts). */
  readonly maxBytes?: number;
  /** Tests only: how the log is made durable. */
  readonly walSync?: (database: string) => WalSync;
  /** Who follows what is committed. */
  readonly tap?: CommitTap;
}

const MAX_BATCH = 64;
const SCRUB_REVISIONS = 500;

interface Write {
  /** Runs inside a savepoint. Returns what to do once it is durable. */
  readonly run: (ctx: ApplyContext) => () => void;
  readonly fail: (err: AppError) => void;
}

export function openSqliteStore(options: SqliteOptions): Store {
  const { path, clock = systemClock, walSync = openWalSync } = options;
  return new SqliteStore(openDatabase(options), clock, walSync(path), options);
}

class SqliteStore implements Store {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #tables: Tables;
  readonly #hub: WatchHub;
  readonly #leases: LeaseClock;
  readonly #wal: WalSync;
  readonly #order: DurableOrder;
  readonly #tap: CommitTap | undefined;
  readonly #room: Room | undefined;
  /** Durable, and so the one that is told. */
  #revision: number;
  /** Committed. */
  #written: number;
  #compacted: number;
  readonly #queue: Write[] = [];
  #scheduled = false;
  #closed: AppError | undefined;

  constructor(db: DatabaseSync, clock: Clock, wal: WalSync, { path, tap, maxBytes }: SqliteOptions) {
    this.#db = db;
    this.#path = path;
    this.#wal = wal;
    this.#tap = tap;
    this.#order = new DurableOrder(tap?.gate(wal.sync) ?? wal.sync, (err) => this.#giveUp(err));
    this.#tables = new Tables(db);
    this.#room = maxBytes === undefined ? undefined : new Room(this.#tables, path, pagesIn(db, maxBytes));
    this.#revision = this.#tables.meta("revision");
    this.#written = this.#revision;
    this.#compacted = this.#tables.meta("compacted");
    this.#hub = new WatchHub(this.#tables, () => ({
      revision: this.#revision,
      compactRevision: this.#compacted,
    }));
    this.#leases = new LeaseClock(clock, (id) => this.#expire(id, clock));
    for (const lease of this.#tables.leases()) this.#leases.add(lease.id, lease.ttlSeconds);
    tap?.attach(historySource(this.#tables), this.#revision);
  }

  async range(request: RangeRequest, options?: CallOptions): Promise<RangeResponse> {
    this.#check(options);
    requireKey(request.key);
    return this.#read(() => readRange(this.#context([]), request));
  }

  async txn(request: TxnRequest, options?: CallOptions): Promise<TxnResponse> {
    this.#check(options);
    checkTxn(request);
    if (readsOnly(request)) return this.#read(() => applyTxn(this.#context([]), request));
    return this.#write((ctx) => applyTxn(ctx, request));
  }

  watch(request: WatchRequest): Watching {
    this.#check();
    requireKey(request.key);
    return this.#hub.watch(request);
  }

  async revision(options?: CallOptions): Promise<number> {
    this.#check(options);
    return this.#revision;
  }

  async compact(revision: number, options?: CallOptions): Promise<void> {
    this.#check(options);
    await this.#write(({ aside }) => {
      // From the table: another compaction may stand earlier in this very batch.
      const before = this.#tables.meta("compacted");
      if (revision <= before) throw compacted(revision, before);
      if (revision > this.#revision) throw futureRevision(revision, this.#revision);
      this.#tables.setMeta("compacted", revision);
      aside.compacted = revision;
    });
    this.#compacted = Math.max(this.#compacted, revision);
    await this.#scrub(revision);
  }

  /**
   * Looks only at what changed since the last time, in small bites, so that other writes get their turn. A crash in
   * between costs space until the next compaction, which begins where this one did.
   */
  async #scrub(to: number): Promise<void> {
    const from = this.#tables.meta("scrubbed");
    for (let at = from; at < to; at += SCRUB_REVISIONS) {
      await this.#write(() => this.#tables.removeReplaced(at, Math.min(at + SCRUB_REVISIONS, to)));
    }
    for (let at = from; at < to; at += SCRUB_REVISIONS) {
      await this.#write(() => this.#tables.removeTombstones(at, Math.min(at + SCRUB_REVISIONS, to)));
    }
    await this.#write(() => this.#tables.setMeta("scrubbed", Math.max(to, this.#tables.meta("scrubbed"))));
  }

  async leaseGrant(ttlSeconds: number, id?: bigint): Promise<{ id: bigint; ttlSeconds: number }> {
    this.#check();
    requireTtl(ttlSeconds);
    const chosen = id === undefined || id === 0n ? newLeaseId() : id;
    await this.#write(({ aside }) => {
      if (this.#tables.hasLease(chosen)) {
        throw refusal("leaseExists", `lease ${chosen} already exists`);
      }
      this.#tables.addLease(chosen, ttlSeconds);
      aside.granted.push({ id: chosen, ttlSeconds });
    });
    this.#leases.add(chosen, ttlSeconds);
    return { id: chosen, ttlSeconds };
  }

  async leaseKeepAlive(id: bigint): Promise<number> {
    this.#check();
    const ttlSeconds = this.#leases.renew(id);
    if (ttlSeconds === undefined) throw noLease(id);
    return ttlSeconds;
  }

  async leaseRevoke(id: bigint): Promise<void> {
    this.#check();
    await this.#write((ctx) => {
      if (!this.#tables.hasLease(id)) throw noLease(id);
      this.#revoke(ctx, id);
    });
    this.#leases.remove(id);
  }

  async leaseStatus(id: bigint): Promise<LeaseStatus> {
    this.#check();
    const lease = this.#leases.get(id);
    if (lease === undefined || lease.remainingMs <= 0) {
      return { id, ttlSeconds: -1, grantedTtlSeconds: 0, keys: [] };
    }
    return this.#guard(() => ({
      id,
      ttlSeconds: Math.floor(lease.remainingMs / 1_000),
      grantedTtlSeconds: lease.ttlSeconds,
      keys: this.#tables.keysOfLease(id),
    }));
  }

  async leases(): Promise<readonly bigint[]> {
    this.#check();
    return this.#leases.byEnd();
  }

  readonly upkeep: StoreUpkeep = {
    size: () => {
      this.#check();
      return this.#guard(() => sizeOf(this.#db));
    },
    defragment: async () => {
      this.#check();
      // Between two batches, as everything here: SQLite refuses it inside a transaction.
      this.#guard(() => {
        this.#db.exec("VACUUM");
        this.#db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      });
    },
    hash: async (wanted) => {
      this.#check();
      const revision = wanted > 0 ? wanted : this.#revision;
      if (revision > this.#revision) throw futureRevision(revision, this.#revision);
      if (revision < this.#compacted) throw compacted(revision, this.#compacted);
      const compactRevision = this.#compacted;
      const hash = this.#guard(() => hashHistory(this.#tables.historyTo(revision, compactRevision)));
      return { hash, revision, compactRevision };
    },
  };

  async close(): Promise<void> {
    if (this.#closed !== undefined) return;
    while (this.#queue.length > 0) this.#flush();
    this.#closed = closedError(this.#path);
    this.#tap?.release();
    await this.#order.settled().catch((err: unknown) => ignore(err, "whoever waited was told"));
    if (this.#closed.cause === undefined) {
      this.#end(this.#closed);
      this.#wal.close();
      this.#db.close();
    }
  }

  /**
   * After a failed sync nobody knows what the disk has: the next start reads what is really there. The database stays
   * open until the process ends, because closing it would copy pages of the log that may be lost.
   */
  #giveUp(cause: Error): AppError {
    const text = `the store ${this.#path} could not be written to its disk and is closed: ${messageOf(cause)}; check the disk, then restart`;
    const told = new AppError("store.unavailable", text, { cause });
    this.#closed = told;
    for (const write of this.#queue.splice(0)) write.fail(told);
    this.#end(told);
    return told;
  }

  #end(reason: AppError): void {
    this.#leases.stop();
    this.#hub.close(reason);
  }

  #check(options?: CallOptions): void {
    if (this.#closed !== undefined) throw this.#closed;
    if (options?.signal?.aborted === true) {
      throw new AppError("operation.cancelled", "the request was cancelled before it reached the store");
    }
  }

  #guard<T>(work: () => T): T {
    try {
      return work();
    } catch (err) {
      throw fromSqlite(err, this.#path);
    }
  }

  /** What is read may be newer than what is durable: the answer waits until it is that too. */
  async #read<T>(work: () => T): Promise<T> {
    const found = this.#guard(work);
    if (this.#written > this.#revision) await this.#order.settled();
    return found;
  }

  #context(events: StoreEvent[], revision = this.#written, aside = nothingAside()): ApplyContext {
    return {
      aside,
      tables: this.#tables,
      revision,
      compactRevision: this.#compacted,
      room: this.#room,
      leaseExists: (id) => this.#leases.has(id) && this.#tables.hasLease(id),
      events,
    };
  }

  #write<T>(work: (ctx: ApplyContext) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#queue.push({
        run: (ctx) => {
          const result = work(ctx);
          return () => resolve(result);
        },
        fail: reject,
      });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    // Not all at once: SQLite works on this thread, and others want it too.
    const batch = this.#queue.splice(0, MAX_BATCH);
    this.#schedule();
    if (this.#closed !== undefined) {
      for (const write of batch) write.fail(this.#closed);
      return;
    }
    const failure = this.#commit(batch);
    if (failure === undefined) return;
    // SQLite gave up on the whole batch, for instance on a full disk: let each write stand or fall alone.
    for (const write of batch) {
      const alone = batch.length > 1 ? this.#commit([write]) : failure;
      if (alone !== undefined) write.fail(alone);
    }
  }

  /** All or nothing for trouble with SQLite itself; a write that is refused by its own logic fails alone. */
  #commit(batch: readonly Write[]): AppError | undefined {
    const done: Waiting[] = [];
    const revisions: StoreEvent[][] = [];
    const asides: Aside[] = [];
    try {
      this.#db.exec("BEGIN IMMEDIATE");
      for (const write of batch) {
        const events: StoreEvent[] = [];
        this.#db.exec("SAVEPOINT one");
        try {
          const aside = nothingAside();
          const succeed = write.run(this.#context(events, this.#written + revisions.length, aside));
          done.push({ succeed, fail: write.fail });
          asides.push(aside);
          if (events.length > 0) revisions.push(events);
        } catch (err) {
          if (!(err instanceof AppError)) throw err;
          this.#db.exec("ROLLBACK TO one");
          done.push({ succeed: () => write.fail(err), fail: write.fail });
        }
        this.#db.exec("RELEASE one");
      }
      if (revisions.length > 0) this.#tables.setMeta("revision", this.#written + revisions.length);
      this.#db.exec("COMMIT");
    } catch (err) {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      return fromSqlite(err, this.#path);
    }
    this.#written += revisions.length;
    this.#tap?.committed({
      revision: this.#written,
      events: revisions.flat(),
      granted: asides.flatMap(({ granted }) => granted),
      revoked: asides.flatMap(({ revoked }) => revoked),
      ...given({ compacted: asides.findLast(({ compacted: up }) => up !== undefined)?.compacted }),
    });
    const tell = (): void => {
      for (const events of revisions) {
        this.#revision += 1;
        this.#hub.publish(this.#revision, events);
      }
    };
    this.#order.after([{ succeed: tell, fail: () => undefined }, ...done]);
    return undefined;
  }

  #revoke(ctx: ApplyContext, id: bigint): void {
    deleteKeys(ctx, this.#tables.keysOfLease(id));
    this.#tables.removeLease(id);
    ctx.aside.revoked.push(id);
  }

  #expire(id: bigint, clock: Clock): void {
    this.#write((ctx) => this.#revoke(ctx, id)).then(
      () => this.#leases.remove(id),
      // A full disk must not make a lease immortal: it already counts as ended, its keys go when there is room.
      () => {
        if (this.#closed === undefined) clock.after(1_000, () => this.#expire(id, clock));
      },
    );
  }
}
