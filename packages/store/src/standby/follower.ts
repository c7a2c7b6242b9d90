// The following side: a database that has what its leader has, revision for revision, and serves nobody. What the leader
// sends is confirmed when the disk has it. A copy that is not whole is never seen: it is one transaction.
import type { DatabaseSync } from "node:sqlite";
import type { Duplex } from "node:stream";
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { KeyValue } from "../port.ts";
import { openDatabase } from "../sqlite/database.ts";
import { hashHistory } from "../sqlite/history-hash.ts";
import { Tables } from "../sqlite/tables.ts";
import { openWalSync, type WalSync } from "../sqlite/wal-sync.ts";
import { encodeFrame, type Frame, FrameReader, type Head } from "./frames.ts";

export interface FollowerOptions {
  readonly path: string;
  /** Of the leader that may be followed; others are sent away. */
  readonly generation: number;
  /** Absent: whatever its leader has. */
  readonly maxBytes?: number;
  readonly clock: Pick<Clock, "monotonic">;
  readonly say: (line: string) => void;
}

type Of<T extends Head["type"]> = Head & { readonly type: T };
/** Something was heard; nothing is confirmed by it. */
const HEARD = -1;
/** Its leader says something every second. */
const FED_MS = 5_000;

export class Follower {
  readonly #options: FollowerOptions;
  readonly #db: DatabaseSync;
  readonly #tables: Tables;
  readonly #wal: WalSync;
  #socket: Duplex | undefined;
  #isFilling = false;
  /** When its leader has last said something that is for those who have all before it. */
  #fedAt = Number.NEGATIVE_INFINITY;
  #syncing: Promise<void> | undefined;
  #written: { readonly socket: Duplex; readonly seq: number } | undefined;

  constructor(options: FollowerOptions) {
    this.#options = options;
    const { path, maxBytes } = options;
    this.#db = openDatabase({ path, ...given({ maxBytes }) });
    this.#tables = new Tables(this.#db);
    this.#wal = openWalSync(options.path);
  }

  get generation(): number {
    return this.#options.generation;
  }

  /** Its leader runs, and has been heard. */
  get isFed(): boolean {
    return this.#socket !== undefined && this.#options.clock.monotonic() - this.#fedAt < FED_MS;
  }

  /** A line from the leader; the one before is given up. */
  take(socket: Duplex): void {
    this.#cut();
    this.#socket = socket;
    const reader = new FrameReader();
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      if (this.#socket === socket) this.#cut();
    });
    socket.on("data", (chunk: Buffer) => {
      if (this.#socket !== socket) return;
      try {
        for (const frame of reader.push(chunk)) this.#hear(socket, frame);
      } catch (err) {
        this.#options.say(`what the leader says cannot be followed: ${messageOf(err)}`);
        this.#cut();
      }
    });
  }

  async close(): Promise<void> {
    this.#cut();
    await this.#syncing;
    this.#wal.close();
    this.#db.close();
  }

  #hear(socket: Duplex, { head, rows }: Frame): void {
    switch (head.type) {
      case "hello":
        this.#greet(socket, head);
        return;
      case "begin":
        this.#db.exec("BEGIN IMMEDIATE");
        this.#isFilling = true;
        if (head.whole) this.#tables.clear();
        return;
      case "rows":
        this.#put(rows);
        socket.write(encodeFrame({ type: "ack", seq: HEARD }));
        return;
      case "settle":
        this.#settle(head);
        this.#confirm(socket, head.seq);
        return;
      case "change":
        this.#change(head, rows);
        this.#confirm(socket, head.seq);
        return;
      case "ping":
        this.#confirm(socket, head.seq);
        return;
      case "position":
      case "ack":
        throw new Error(`'${head.type}' is nothing that a leader says`);
    }
  }

  #greet(socket: Duplex, { generation, compacted }: Of<"hello">): void {
    if (generation !== this.#options.generation)
      throw new Error(`generation ${generation} is not followed here, but ${this.#options.generation}`);
    const revision = this.#tables.meta("revision");
    const has = this.#tables.meta("compacted");
    const isComparable = this.#isFollowing() && has <= compacted && revision >= compacted;
    const hash = isComparable ? hashHistory(this.#tables.historyTo(revision, compacted)) : 0;
    socket.write(encodeFrame({ type: "position", revision: isComparable ? revision : 0, hash }));
  }

  /** Whether it has been whole once: a new database is at revision 1 too. */
  #isFollowing(): boolean {
    return this.#tables.meta("followed") > 0;
  }

  #settle({ revision, compacted, leases }: Of<"settle">): void {
    if (!this.#isFilling) throw new Error("nothing was begun");
    const tables = this.#tables;
    for (const { id } of tables.leases()) tables.removeLease(id);
    for (const [id, ttlSeconds] of leases) tables.addLease(BigInt(id), ttlSeconds);
    tables.setMeta("revision", revision);
    tables.setMeta("compacted", compacted);
    // What was compacted before may still lie here, and goes with the next time.
    tables.setMeta("scrubbed", Math.min(tables.meta("scrubbed"), compacted));
    tables.setMeta("followed", 1);
    this.#db.exec("COMMIT");
    this.#isFilling = false;
  }

  #change(head: Of<"change">, rows: readonly KeyValue[]): void {
    const tables = this.#tables;
    const now = tables.meta("revision");
    if (this.#isFilling || head.revision < now) throw new Error(`revision ${head.revision} after ${now}`);
    const { granted = [], revoked = [], compacted } = head;
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      this.#put(rows);
      for (const [id, ttlSeconds] of granted) tables.addLease(BigInt(id), ttlSeconds);
      for (const id of revoked) tables.removeLease(BigInt(id));
      if (compacted !== undefined) {
        const from = tables.meta("scrubbed");
        tables.removeReplaced(from, compacted);
        tables.removeTombstones(from, compacted);
        tables.setMeta("compacted", compacted);
        tables.setMeta("scrubbed", Math.max(from, compacted));
      }
      tables.setMeta("revision", head.revision);
      this.#db.exec("COMMIT");
    } catch (err) {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      throw err;
    }
  }

  #put(rows: readonly KeyValue[]): void {
    for (const row of rows) {
      if (row.version === 0) this.#tables.delete(row.key, row.modRevision);
      else this.#tables.put(row);
    }
  }

  /** One sync at a time; what is written meanwhile shares the next. */
  #confirm(socket: Duplex, seq: number): void {
    this.#fedAt = this.#options.clock.monotonic();
    this.#written = { socket, seq };
    this.#syncing ??= this.#syncAll().finally(() => {
      this.#syncing = undefined;
    });
  }

  async #syncAll(): Promise<void> {
    while (this.#written !== undefined) {
      const { socket, seq } = this.#written;
      this.#written = undefined;
      const failed = await new Promise<Error | null>((resolve) => this.#wal.sync(resolve));
      if (failed !== null) {
        this.#options.say(`the standby cannot be written to its disk: ${failed.message}`);
        this.#cut();
        return;
      }
      if (this.#socket === socket) socket.write(encodeFrame({ type: "ack", seq }));
    }
  }

  #cut(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#written = undefined;
    socket?.destroy();
    if (this.#db.isOpen && this.#db.isTransaction) this.#db.exec("ROLLBACK");
    this.#isFilling = false;
  }
}
