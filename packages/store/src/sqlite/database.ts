// Opens the database file: durability settings, sole ownership, schema version.
import { chmodSync, closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { AppError } from "@gpve/contracts/errors.ts";
import { fromSqlite } from "./sqlite-errors.ts";

/** Bumped with every change of the tables; `migrations[n]` leads from version n to n + 1. */
export const SCHEMA_VERSION = 1;
/** "gpvS" in the file header tells our databases from others. */
export const APPLICATION_ID = 0x67707653;

const migrations: readonly string[] = [
  // history: every version of every key still readable; version 0 is a deletion. The rowid grows with
  // (revision, order inside the transaction). live: the newest version of each key that exists.
  `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  INSERT INTO meta VALUES ('revision', 1), ('compacted', 0);
  CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    mod INTEGER NOT NULL,
    key BLOB NOT NULL,
    value BLOB,
    created INTEGER NOT NULL,
    version INTEGER NOT NULL,
    lease TEXT
  );
  CREATE UNIQUE INDEX history_key ON history (key, mod);
  CREATE INDEX history_mod ON history (mod);
  CREATE INDEX history_lease ON history (lease) WHERE lease IS NOT NULL;
  CREATE TABLE live (key BLOB PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE lease (id TEXT PRIMARY KEY, ttl INTEGER NOT NULL) WITHOUT ROWID;
  `,
];

export interface DatabaseOptions {
  readonly path: string;
  /** Refuse to grow beyond this, as a full disk would. */
  readonly maxBytes?: number;
}

export function openDatabase(options: DatabaseOptions): DatabaseSync {
  const { path } = options;
  let db: DatabaseSync | undefined;
  try {
    if (path !== ":memory:") prepareFile(path);
    db = new DatabaseSync(path);
    // One process owns the file: revision and watches live in its memory. The lock goes with the process.
    db.exec("PRAGMA locking_mode = EXCLUSIVE");
    // Before anything is changed: a file that is not ours stays as it is.
    checkIdentity(db, path);
    db.exec("PRAGMA journal_mode = WAL");
    // Commits reach the kernel; wal-sync.ts brings them to the disk before anybody hears of them.
    db.exec("PRAGMA synchronous = NORMAL");
    db.exec("PRAGMA journal_size_limit = 67108864");
    // Pages that change often are copied once for four times as many commits, on the thread that everybody waits for.
    db.exec("PRAGMA wal_autocheckpoint = 4000");
    db.exec("PRAGMA cache_size = -32768");
    migrate(db, path);
    if (options.maxBytes !== undefined) limit(db, options.maxBytes);
    return db;
  } catch (err) {
    db?.close();
    throw fromSqlite(err, path);
  }
}

/** Secrets live in there: for its owner only. SQLite gives the files beside it the same mode. */
function prepareFile(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  closeSync(openSync(path, "a", 0o600));
  chmodSync(path, 0o600);
}

export function pragma(db: DatabaseSync, name: string): number {
  const row = db.prepare(`PRAGMA ${name}`).get();
  const value = row === undefined ? undefined : Object.values(row)[0];
  return typeof value === "number" ? value : 0;
}

export function sizeOf(db: DatabaseSync): { bytes: number; usedBytes: number } {
  const page = pragma(db, "page_size");
  const pages = pragma(db, "page_count");
  return { bytes: pages * page, usedBytes: (pages - pragma(db, "freelist_count")) * page };
}

/** Throws unless the file is one of ours and of a version this program knows. */
export function checkIdentity(db: DatabaseSync, path: string): number {
  const version = pragma(db, "user_version");
  const application = pragma(db, "application_id");
  const empty = pragma(db, "schema_version") === 0;
  if (application !== APPLICATION_ID && !(empty && application === 0)) {
    throw new AppError("store.unavailable", `${path} is a database of another program`, { data: { path } });
  }
  if (version > SCHEMA_VERSION) {
    throw new AppError(
      "data.newer_version",
      `${path} was written by a newer version (format ${version}, this one knows up to ${SCHEMA_VERSION}); start that version, or restore a backup`,
      { data: { path, found: version, supported: SCHEMA_VERSION } },
    );
  }
  return version;
}

function migrate(db: DatabaseSync, path: string): void {
  const version = checkIdentity(db, path);
  if (version === SCHEMA_VERSION) return;
  db.exec("BEGIN IMMEDIATE");
  for (const step of migrations.slice(version)) db.exec(step);
  db.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
  db.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
  db.exec("COMMIT");
}

function limit(db: DatabaseSync, maxBytes: number): void {
  db.exec(`PRAGMA max_page_count = ${pagesIn(db, maxBytes)}`);
}

export function pagesIn(db: DatabaseSync, bytes: number): number {
  return Math.max(1, Math.floor(bytes / pragma(db, "page_size")));
}
