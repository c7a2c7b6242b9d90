// The SQL: every statement the engine runs, on one open database. No transaction logic here.
import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from "node:sqlite";
import type { Bytes, KeyValue, StoreEvent } from "../port.ts";
import { isToTheEnd } from "../keys.ts";

export interface Span {
  readonly key: Bytes;
  readonly end?: Bytes | undefined;
}

export interface ReadOptions {
  readonly limit: number;
  readonly keysOnly: boolean;
  readonly descending: boolean;
  /** Read as of this revision; undefined = newest. */
  readonly at: number | undefined;
  readonly minModRevision: number;
}

type Row = Record<string, SQLOutputValue>;
/** scrubbed: what was compacted before has been removed up to here. followed: it was once a whole copy of another. */
type MetaName = "revision" | "compacted" | "scrubbed" | "followed";

const EMPTY: Bytes = new Uint8Array(0);
const COLUMNS = "h.key AS key, h.mod AS mod, h.created AS created, h.version AS version, h.lease AS lease";

export class Tables {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  meta(name: MetaName): number {
    return int(this.#sql("SELECT value FROM meta WHERE name = ?").get(name)?.["value"]);
  }

  setMeta(name: MetaName, value: number): void {
    this.#sql(
      "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    ).run(name, value);
  }

  /** Of its file, without those that are free. */
  usedPages(): number {
    const all = int(this.#sql("PRAGMA page_count").get()?.["page_count"]);
    return all - int(this.#sql("PRAGMA freelist_count").get()?.["freelist_count"]);
  }

  read(span: Span, options: ReadOptions): KeyValue[] {
    const { where, values } = condition(span, "h.key");
    const direction = options.descending ? "DESC" : "ASC";
    const fields = options.keysOnly ? COLUMNS : `${COLUMNS}, h.value AS value`;
    const limit = options.limit > 0 ? options.limit : -1;
    if (options.at === undefined) {
      const live = condition(span, "l.key").where;
      const sql = `SELECT ${fields} FROM live l CROSS JOIN history h ON h.id = l.id
        WHERE ${live} AND h.mod >= ? ORDER BY l.key ${direction} LIMIT ?`;
      return this.#sql(sql)
        .all(...values, options.minModRevision, limit)
        .map(toKeyValue);
    }
    const sql = `SELECT ${fields} FROM history h WHERE ${where} AND ${visibleAt} AND h.mod >= ?
      ORDER BY h.key ${direction} LIMIT ?`;
    return this.#sql(sql)
      .all(...values, options.at, options.at, options.minModRevision, limit)
      .map(toKeyValue);
  }

  count(span: Span, at: number | undefined): number {
    if (at === undefined) {
      const { where, values } = condition(span, "key");
      return int(this.#sql(`SELECT count(*) AS n FROM live WHERE ${where}`).get(...values)?.["n"]);
    }
    const { where, values } = condition(span, "h.key");
    const sql = `SELECT count(*) AS n FROM history h WHERE ${where} AND ${visibleAt}`;
    return int(this.#sql(sql).get(...values, at, at)?.["n"]);
  }

  get(key: Bytes): KeyValue | undefined {
    const row = this.#sql(
      `SELECT ${COLUMNS}, h.value AS value FROM live l CROSS JOIN history h ON h.id = l.id WHERE l.key = ?`,
    ).get(key);
    return row === undefined ? undefined : toKeyValue(row);
  }

  /** Whether any key of the range was put at or after `revision` and is still there. */
  changedSince(span: Span, revision: number): boolean {
    const { where, values } = condition(span, "h.key");
    return (
      this.#sql(
        `SELECT 1 FROM history h INDEXED BY history_mod CROSS JOIN live l ON l.key = h.key AND l.id = h.id
         WHERE h.mod >= ? AND ${where} LIMIT 1`,
      ).get(revision, ...values) !== undefined
    );
  }

  /** What the key was just before `revision`. */
  before(key: Bytes, revision: number): KeyValue | undefined {
    const row = this.#sql(
      `SELECT ${COLUMNS}, h.value AS value FROM history h WHERE h.key = ? AND h.mod < ?
       ORDER BY h.mod DESC LIMIT 1`,
    ).get(key, revision);
    if (row === undefined || row["version"] === 0) return undefined;
    return toKeyValue(row);
  }

  put(kv: KeyValue): void {
    const id = this.#insert(kv);
    this.#sql(
      "INSERT INTO live (key, id) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET id = excluded.id",
    ).run(kv.key, id);
  }

  delete(key: Bytes, revision: number): void {
    this.#insert(tombstone(key, revision));
    this.#sql("DELETE FROM live WHERE key = ?").run(key);
  }

  /** Events of whole revisions from `from` on, at most about `limit` of them, and the revision they reach. */
  events(
    span: Span,
    from: number,
    to: number,
    limit: { readonly events: number; readonly bytes: number },
  ): { events: StoreEvent[]; reached: number } {
    const { where, values } = condition(span, "h.key");
    const sql = `SELECT ${COLUMNS}, h.value AS value FROM history h
      WHERE h.mod >= ? AND h.mod <= ? AND ${where} ORDER BY h.mod, h.id`;
    const events: StoreEvent[] = [];
    let bytes = 0;
    for (const row of this.#sql(sql).iterate(from, to, ...values)) {
      const event = toEvent(row);
      const last = events.at(-1)?.kv.modRevision;
      const isFull = events.length >= limit.events || bytes >= limit.bytes;
      // Revisions are told whole.
      if (isFull && last !== undefined && event.kv.modRevision !== last) return { events, reached: last };
      events.push(event);
      bytes += event.kv.key.length + event.kv.value.length;
    }
    return { events, reached: to };
  }

  /** What can be read at `revision` or happened since `compactRevision`, whether or not older rows are removed yet. */
  *historyTo(revision: number, compactRevision: number): Generator<KeyValue> {
    const sql = `SELECT ${COLUMNS}, h.value AS value FROM history h INDEXED BY history_mod
      WHERE h.mod <= ?1 AND (h.mod > ?2 OR (h.version > 0 AND NOT EXISTS (
        SELECT 1 FROM history n WHERE n.key = h.key AND n.mod > h.mod AND n.mod <= ?1)))
      ORDER BY h.mod, h.id`;
    for (const row of this.#sql(sql).iterate(revision, compactRevision)) yield toKeyValue(row);
  }

  /** Removes the versions that were replaced by a change at a revision after `from`, up to and including `to`. */
  removeReplaced(from: number, to: number): void {
    this.#sql(
      `DELETE FROM history WHERE id IN (
         SELECT old.id FROM history new INDEXED BY history_mod CROSS JOIN history old INDEXED BY history_key
         ON old.key = new.key AND old.mod < new.mod WHERE new.mod > ? AND new.mod <= ?)`,
    ).run(from, to);
  }

  /** Removes the deletions from revision `from` on, before `to`: there is nothing left that they delete. */
  removeTombstones(from: number, to: number): void {
    this.#sql("DELETE FROM history INDEXED BY history_mod WHERE mod >= ? AND mod < ? AND version = 0").run(
      from,
      to,
    );
  }

  leases(): { id: bigint; ttlSeconds: number }[] {
    return this.#sql("SELECT id, ttl FROM lease")
      .all()
      .map((row) => ({ id: BigInt(String(row["id"])), ttlSeconds: int(row["ttl"]) }));
  }

  /** Nothing was ever written. */
  clear(): void {
    for (const table of ["history", "live", "lease"]) this.#db.exec(`DELETE FROM ${table}`);
  }

  hasLease(id: bigint): boolean {
    return this.#sql("SELECT 1 FROM lease WHERE id = ?").get(String(id)) !== undefined;
  }

  addLease(id: bigint, ttlSeconds: number): void {
    this.#sql("INSERT OR REPLACE INTO lease (id, ttl) VALUES (?, ?)").run(String(id), ttlSeconds);
  }

  removeLease(id: bigint): void {
    this.#sql("DELETE FROM lease WHERE id = ?").run(String(id));
  }

  keysOfLease(id: bigint): Bytes[] {
    return this.#sql(
      `SELECT h.key AS key FROM history h CROSS JOIN live l ON l.key = h.key AND l.id = h.id
       WHERE h.lease = ? ORDER BY h.key`,
    )
      .all(String(id))
      .map((row) => bytes(row["key"]));
  }

  /**
   * A key that nested transactions put and delete in one revision has one row for it, the last one: whoever watches now
   * sees both events, who reads history later sees how it ended.
   */
  #insert(kv: KeyValue): number | bigint {
    const row = this.#sql(
      `INSERT INTO history (mod, key, value, created, version, lease) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (key, mod) DO UPDATE SET value = excluded.value, created = excluded.created,
         version = excluded.version, lease = excluded.lease
       RETURNING id`,
    ).get(
      kv.modRevision,
      kv.key,
      kv.value,
      kv.createRevision,
      kv.version,
      kv.lease === 0n ? null : String(kv.lease),
    );
    return int(row?.["id"]);
  }

  #sql(text: string): StatementSync {
    let statement = this.#statements.get(text);
    if (statement === undefined) {
      statement = this.#db.prepare(text);
      this.#statements.set(text, statement);
    }
    return statement;
  }
}

export function tombstone(key: Bytes, modRevision: number): KeyValue {
  return { key, value: EMPTY, createRevision: 0, modRevision, version: 0, lease: 0n };
}

const visibleAt = `h.mod <= ? AND h.version > 0 AND NOT EXISTS (
  SELECT 1 FROM history n WHERE n.key = h.key AND n.mod > h.mod AND n.mod <= ?)`;

function condition({ key, end }: Span, column: string): { where: string; values: SQLInputValue[] } {
  if (end === undefined) return { where: `${column} = ?`, values: [key] };
  if (isToTheEnd(end)) return { where: `${column} >= ?`, values: [key] };
  return { where: `${column} >= ? AND ${column} < ?`, values: [key, end] };
}

function toKeyValue(row: Row): KeyValue {
  const lease = row["lease"];
  return {
    key: bytes(row["key"]),
    value: bytes(row["value"]),
    createRevision: int(row["created"]),
    modRevision: int(row["mod"]),
    version: int(row["version"]),
    lease: typeof lease === "string" ? BigInt(lease) : 0n,
  };
}

function toEvent(row: Row): StoreEvent {
  const kv = toKeyValue(row);
  return { type: kv.version === 0 ? "delete" : "put", kv };
}

function int(value: SQLOutputValue | undefined): number {
  return typeof value === "number" ? value : 0;
}

function bytes(value: SQLOutputValue | undefined): Bytes {
  return value instanceof Uint8Array ? value : EMPTY;
}
