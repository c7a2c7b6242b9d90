import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AuditEntry, AuditFilters, AuditRecord } from "@gpve/domain/audit/audit-log.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type FileAuditLog, type FileAuditLogOptions, openFileAuditLog } from "./file-audit-log.ts";
import { lineOf, sealed } from "./chain.ts";
import { listAudit } from "./list-audit.ts";
import { verifyAudit } from "./verify-audit.ts";

const key = Buffer.alloc(32, 7);
const clock = new FakeClock();
let root: string;
let dir: string;
let log: FileAuditLog | undefined;
let complaints: string[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "gpve-audit-"));
  dir = join(root, "audit");
  complaints = [];
});

afterEach(async () => {
  await log?.close();
  log = undefined;
  rmSync(root, { recursive: true });
});

async function open(options: Partial<FileAuditLogOptions> = {}): Promise<FileAuditLog> {
  log = await openFileAuditLog({
    dir,
    key,
    clock,
    log: { error: (_fields, message) => void complaints.push(message) },
    ...options,
  });
  return log;
}

const entry = (number: number, given: Partial<AuditEntry> = {}): AuditEntry => ({
  timestamp: new Date(Date.UTC(2026, 0, 1, 0, 0, number)).toISOString(),
  requestId: `r${number}`,
  user: number % 2 === 0 ? "root@pam" : "joe@pve",
  userGroups: [],
  verb: "update",
  resource: "/access/users/{userid}",
  name: `u${number}@pve`,
  namespace: "",
  sourceIP: "192.0.2.7",
  userAgent: "curl/8",
  statusCode: 200,
  message: "",
  ...given,
});

async function write(count: number, options: Partial<FileAuditLogOptions> = {}): Promise<void> {
  const opened = await open(options);
  for (let i = 1; i <= count; i++) await opened.append(entry(i));
  await opened.close();
  log = undefined;
}

const files = (): string[] =>
  readdirSync(dir)
    .filter((name) => name.endsWith(".jsonl"))
    .toSorted();
const path = (index = 0): string => join(dir, files().at(index) ?? "");
const linesOf = (index = 0): string[] => readFileSync(path(index), "utf8").trimEnd().split("\n");
const put = (lines: readonly string[], index = 0): void =>
  writeFileSync(path(index), `${lines.join("\n")}\n`);
const kinds = async (): Promise<string[]> => [
  ...new Set((await verifyAudit(dir, key)).issues.map(({ kind }) => kind)),
];

async function seqs(filters: AuditFilters): Promise<number[]> {
  const found: AuditRecord[] = [];
  for await (const record of listAudit(dir, filters)) found.push(record);
  return found.map(({ seq }) => seq);
}

describe("writing", () => {
  test("entries are chained lines with exactly the agreed fields", async () => {
    await write(2);
    const [first, second] = linesOf().map((line) => JSON.parse(line) as AuditRecord);
    expect(Object.keys(first ?? {}).toSorted()).toEqual(
      [...Object.keys(entry(1)), "seq", "prevHash", "hash"].toSorted(),
    );
    expect(second).toMatchObject({ seq: 2, prevHash: first?.hash });
    expect(await verifyAudit(dir, key)).toMatchObject({ ok: true, entries: 2, head: { seq: 2 } });
  });

  test("files are for their owner only", async () => {
    await write(1);
    expect(statSync(dir).mode & 0o077).toBe(0);
    for (const name of readdirSync(dir)) expect(statSync(join(dir, name)).mode & 0o077).toBe(0);
  });

  test("secrets are left out whatever the caller passed", async () => {
    const opened = await open();
    await opened.append(
      entry(1, { message: "password=hunter2", extra: { params: { cipassword: "hunter2" } } }),
    );
    expect(readFileSync(path(), "utf8")).not.toContain("hunter2");
  });

  test("many at once keep their order and share the work", async () => {
    const opened = await open();
    await Promise.all(Array.from({ length: 1200 }, (_, index) => opened.append(entry(index + 1))));
    expect((await opened.verify()).entries).toBe(1200);
    expect(JSON.parse(linesOf()[1199] ?? "")).toMatchObject({ seq: 1200, requestId: "r1200" });
  });

  test("an entry that comes just when the writer ends is written too", async () => {
    const opened = await open();
    for (let i = 1; i <= 30; i++) {
      await opened.append(entry(i)).then(() => opened.append(entry(i)));
    }
    expect((await opened.verify()).entries).toBe(60);
  });

  test("the chain goes on across files and restarts", async () => {
    await write(10, { maxFileBytes: 900 });
    expect(files().length).toBeGreaterThan(2);
    await write(5, { maxFileBytes: 900 });
    expect(await verifyAudit(dir, key)).toMatchObject({ ok: true, entries: 15, recoveries: [] });
    expect(complaints).toEqual([]);
  });

  test("a closed log refuses entries, and closing twice is fine", async () => {
    const opened = await open();
    await opened.close();
    await opened.close();
    await expect(opened.append(entry(1))).rejects.toThrow("closed");
  });

  test("an entry that cannot be written is refused and leaves no trace", async () => {
    const opened = await open({ maxFileBytes: 10 });
    await opened.append(entry(1));
    // The next file's name is taken by a directory: opening it fails as a broken disk would.
    const { mkdirSync, rmdirSync } = await import("node:fs");
    mkdirSync(join(dir, "audit-000000000002.jsonl"));
    await expect(opened.append(entry(2))).rejects.toMatchObject({ code: "store.unavailable" });
    expect(complaints).toEqual(["cannot write the audit log"]);
    rmdirSync(join(dir, "audit-000000000002.jsonl"));
    await opened.append(entry(3));
    expect(await opened.verify()).toMatchObject({ ok: true, entries: 2 });
  });

  test("the head is brought to disk a moment later", async () => {
    const opened = await open();
    await opened.append(entry(1));
    await clock.advance(1_500);
    await opened.append(entry(2));
    expect((await opened.verify()).ok).toBe(true);
  });
});

describe("after a crash", () => {
  test("complete lines behind the head are kept and named, a torn one is cut off", async () => {
    await write(3);
    const last = JSON.parse(linesOf()[2] ?? "") as AuditRecord;
    appendFileSync(path(), `${lineOf(sealed(entry(4), last))}{"torn`);
    expect(await kinds()).toEqual(["unsealed"]);
    await write(1);
    const verdict = await verifyAudit(dir, key);
    expect(verdict).toMatchObject({ ok: true, entries: 6 });
    expect(verdict.recoveries).toEqual([
      expect.objectContaining({
        seq: 5,
        message: expect.stringContaining("entries 4 to 4 were written but not sealed") as string,
      }),
    ]);
    expect(complaints).toHaveLength(1);
  });

  test("a crash between two files is no harm", async () => {
    await write(3);
    writeFileSync(join(dir, "audit-000000000004.jsonl"), "");
    await write(2);
    expect(await verifyAudit(dir, key)).toMatchObject({ ok: true, entries: 5, recoveries: [] });
  });

  test("a half-written head is found and noted", async () => {
    await write(2);
    const head = readFileSync(join(dir, "head"));
    head.fill(0, 0, 512);
    writeFileSync(join(dir, "head"), head);
    expect(await kinds()).toEqual(["seal"]);
    await write(1);
    expect(await verifyAudit(dir, key)).toMatchObject({ ok: true, entries: 4 });
  });
});

describe("tampering is found", () => {
  beforeEach(() => write(6));

  test("a changed line", async () => {
    put(linesOf().with(2, (linesOf()[2] ?? "").replace("u3@pve", "u9@pve")));
    expect(await kinds()).toEqual(["changed"]);
  });

  test("a changed spelling", async () => {
    put(linesOf().with(2, (linesOf()[2] ?? "").replace(",", ", ")));
    expect(await kinds()).toEqual(["changed"]);
  });

  test("a line that is no longer an entry", async () => {
    put(linesOf().with(2, '{"seq":3}'));
    expect(await kinds()).toEqual(["changed", "missing"]);
  });

  test("a removed line", async () => {
    put(linesOf().toSpliced(2, 1));
    expect(await kinds()).toEqual(["missing"]);
  });

  test("the first line removed", async () => {
    put(linesOf().slice(1));
    expect(await kinds()).toEqual(["misplaced", "missing"]);
  });

  test("two lines swapped", async () => {
    const lines = linesOf();
    put(lines.with(2, lines[3] ?? "").with(3, lines[2] ?? ""));
    expect(await kinds()).toEqual(["missing", "misplaced"]);
  });

  test("a line put in, even with fitting hashes", async () => {
    const lines = linesOf();
    const before = JSON.parse(lines[2] ?? "") as AuditRecord;
    put(lines.toSpliced(3, 0, lineOf(sealed(entry(99), before)).trimEnd()));
    expect(await kinds()).toEqual(["misplaced", "changed"]);
  });

  test("lines cut from the end", async () => {
    put(linesOf().slice(0, 4));
    expect(await kinds()).toEqual(["truncated"]);
  });

  test("the last line cut in the middle", async () => {
    truncateSync(path(), statSync(path()).size - 20);
    expect(await kinds()).toEqual(["changed", "truncated"]);
  });

  test("a line added at the end", async () => {
    const last = JSON.parse(linesOf()[5] ?? "") as AuditRecord;
    appendFileSync(path(), lineOf(sealed(entry(7), last)));
    expect(await kinds()).toEqual(["unsealed"]);
  });

  test("the whole rest of the chain written anew", async () => {
    const lines = linesOf();
    let before = JSON.parse(lines[1] ?? "") as AuditRecord;
    const forged = lines.slice(2).map((line, index) => {
      const { seq: _seq, prevHash: _prev, hash: _hash, ...old } = JSON.parse(line) as AuditRecord;
      before = sealed(index === 0 ? { ...old, user: "mallory@pve" } : old, before);
      return lineOf(before).trimEnd();
    });
    put([...lines.slice(0, 2), ...forged]);
    expect(await kinds()).toEqual(["rewritten"]);
  });

  test("head, anchor or files gone, or the key another one", async () => {
    expect((await verifyAudit(dir, Buffer.alloc(32, 8))).issues.map(({ kind }) => kind)).toEqual(["seal"]);
    const anchor = readFileSync(join(dir, "anchor.json"));
    writeFileSync(join(dir, "anchor.json"), "{}\n");
    expect(await kinds()).toEqual(["seal", "changed"]);
    unlinkSync(join(dir, "anchor.json"));
    expect(await kinds()).toEqual(["seal", "changed"]);
    writeFileSync(join(dir, "anchor.json"), anchor);
    const head = readFileSync(join(dir, "head"));
    unlinkSync(join(dir, "head"));
    expect(await kinds()).toEqual(["seal"]);
    writeFileSync(join(dir, "head"), head);
    expect(await kinds()).toEqual([]);
    unlinkSync(path());
    expect(await kinds()).toEqual(["truncated"]);
  });

  test("a rollback of the whole directory, with a head that was noted elsewhere", async () => {
    const { head } = await verifyAudit(dir, key);
    rmSync(dir, { recursive: true });
    await write(3);
    const verdict = await verifyAudit(dir, key, { expect: head });
    expect(verdict.issues.map(({ kind }) => kind)).toEqual(["truncated"]);
  });

  test("and stays found after the log has gone on", async () => {
    put(linesOf().slice(0, 4));
    await write(2);
    const verdict = await verifyAudit(dir, key);
    expect(verdict.issues.map(({ kind }) => kind)).toEqual(["missing"]);
    expect(verdict.recoveries[0]?.message).toContain("missing from the files");
    expect(complaints).toHaveLength(1);
  });

  test("a lost head is noted when the log goes on", async () => {
    unlinkSync(join(dir, "head"));
    await write(1);
    expect((await verifyAudit(dir, key)).recoveries[0]?.message).toContain("no sealed head");
  });

  test("a foreign file is neither taken over nor erased", async () => {
    const foreign = join(dir, "audit-000000000500.jsonl");
    writeFileSync(foreign, "x\n");
    await write(1);
    expect(readFileSync(foreign, "utf8")).toBe("x\n");
    expect((await verifyAudit(dir, key)).ok).toBe(false);
  });

  test("endless tampering gives a bounded report", async () => {
    appendFileSync(path(), "x\n".repeat(500));
    expect((await verifyAudit(dir, key)).issues).toHaveLength(100);
    appendFileSync(path(), "y".repeat(3_000_000));
    expect((await verifyAudit(dir, key)).ok).toBe(false);
  });
});

describe("listing", () => {
  test("filters by user, verb, resource, time, status and place", async () => {
    const opened = await open({ maxFileBytes: 1_000 });
    await opened.append(entry(1));
    await opened.append(entry(2, { verb: "delete", statusCode: 403 }));
    await opened.append(entry(3, { resource: "/pools/{poolid}" }));
    await opened.append(entry(4, { statusCode: 404 }));
    expect(await seqs({})).toEqual([1, 2, 3, 4]);
    expect(await seqs({ newestFirst: true })).toEqual([4, 3, 2, 1]);
    expect(await seqs({ newestFirst: true, before: 4, limit: 2 })).toEqual([3, 2]);
    expect(await seqs({ user: "joe@pve" })).toEqual([1, 3]);
    expect(await seqs({ verb: "delete" })).toEqual([2]);
    expect(await seqs({ resource: "/access/" })).toEqual([1, 2, 4]);
    expect(await seqs({ resource: "/acc" })).toEqual([]);
    expect(await seqs({ status: 403 })).toEqual([2]);
    expect(await seqs({ status: "4xx" })).toEqual([2, 4]);
    expect(
      await seqs({ since: Date.UTC(2026, 0, 1, 0, 0, 2), until: Date.UTC(2026, 0, 1, 0, 0, 4) }),
    ).toEqual([2, 3]);
    expect(await seqs({ limit: 0 })).toEqual([]);
    const live: number[] = [];
    for await (const record of opened.list({ limit: 1 })) live.push(record.seq);
    expect(live).toEqual([1]);
  });

  test("a line that is still being written is left out in both directions", async () => {
    await write(2);
    appendFileSync(path(), '{"half');
    expect(await seqs({})).toEqual([1, 2]);
    expect(await seqs({ newestFirst: true })).toEqual([2, 1]);
  });

  test("there is nothing where there is no log", async () => {
    expect(await seqs({ newestFirst: true })).toEqual([]);
    expect(await verifyAudit(dir, key)).toMatchObject({ ok: true, entries: 0 });
  });
});
