// Looks at a SQLite store from outside: is the file sound, and do the tables say what the engine relies on?
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { AppError } from "@gpve/contracts/errors.ts";
import { checkIdentity } from "../sqlite/database.ts";
import { fromSqlite } from "../sqlite/sqlite-errors.ts";

export interface SqliteReport {
  readonly path: string;
  /** Empty = all is well. */
  readonly problems: readonly string[];
  readonly revision: number;
  readonly compactRevision: number;
  readonly keys: number;
}

/** Each query counts rows that must not exist. */
const invariants: readonly (readonly [problem: string, sql: string])[] = [
  [
    "keys whose newest version is missing",
    "SELECT count(*) AS n FROM live l LEFT JOIN history h ON h.id = l.id AND h.key = l.key WHERE h.id IS NULL",
  ],
  [
    "keys that show a deleted or outdated version",
    `SELECT count(*) AS n FROM live l JOIN history h ON h.id = l.id WHERE h.version = 0
     OR EXISTS (SELECT 1 FROM history newer WHERE newer.key = h.key AND newer.mod > h.mod)`,
  ],
  [
    "versions that should be shown but are not",
    `SELECT count(*) AS n FROM history h WHERE h.version > 0
     AND NOT EXISTS (SELECT 1 FROM history newer WHERE newer.key = h.key AND newer.mod > h.mod)
     AND NOT EXISTS (SELECT 1 FROM live l WHERE l.key = h.key)`,
  ],
  [
    "versions newer than the store's revision",
    "SELECT count(*) AS n FROM history WHERE mod > (SELECT value FROM meta WHERE name = 'revision')",
  ],
  [
    "versions created after they were changed",
    "SELECT count(*) AS n FROM history WHERE version > 0 AND (created > mod OR (version = 1) <> (created = mod))",
  ],
  [
    "revisions in the wrong order",
    `SELECT count(*) AS n FROM (SELECT mod, lag(mod) OVER (ORDER BY id) AS before FROM history)
     WHERE before > mod`,
  ],
  [
    "keys tied to a lease that does not exist",
    `SELECT count(*) AS n FROM live l JOIN history h ON h.id = l.id
     WHERE h.lease IS NOT NULL AND h.lease NOT IN (SELECT id FROM lease)`,
  ],
  [
    "compactions of the future",
    `SELECT count(*) AS n FROM meta c JOIN meta r ON r.name = 'revision'
     WHERE c.name = 'compacted' AND c.value > r.value`,
  ],
];

/** The store must not be in use. Throws when the file cannot be examined at all. */
export function verifySqlite(path: string): SqliteReport {
  if (!existsSync(path)) throw new AppError("object.not_found", `there is no store at ${path}`);
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true });
    const opened = db;
    checkIdentity(opened, path);
    const number = (sql: string): number => Number(opened.prepare(sql).get()?.["n"] ?? 0);
    const problems = opened
      .prepare("PRAGMA integrity_check")
      .all()
      .map((row) => String(row["integrity_check"]))
      .filter((line) => line !== "ok");
    if (problems.length === 0) {
      for (const [problem, sql] of invariants) {
        const count = number(sql);
        if (count > 0) problems.push(`${count} ${problem}`);
      }
    }
    return {
      path,
      problems,
      revision: number("SELECT value AS n FROM meta WHERE name = 'revision'"),
      compactRevision: number("SELECT value AS n FROM meta WHERE name = 'compacted'"),
      keys: number("SELECT count(*) AS n FROM live"),
    };
  } catch (err) {
    throw fromSqlite(err, path);
  } finally {
    db?.close();
  }
}
