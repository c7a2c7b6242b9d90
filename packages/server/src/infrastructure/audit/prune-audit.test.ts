import { mkdtempSync, readdirSync, readFileSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { type FileAuditLog, openFileAuditLog } from "./file-audit-log.ts";
import { verifyAudit } from "./verify-audit.ts";

const key = Buffer.alloc(32, 7);
let root: string;
let dir: string;
let log: FileAuditLog;
let complaints: string[];

async function open(): Promise<void> {
  log = await openFileAuditLog({
    dir,
    key,
    clock: new FakeClock(),
    log: { error: (_fields, message) => void complaints.push(message) },
    // Two entries fill a file.
    maxFileBytes: 600,
    maxFiles: 3,
  });
}

async function append(count: number): Promise<void> {
  for (let at = 0; at < count; at++)
    await log.append({
      timestamp: "2026-01-01T00:00:00.000Z",
      requestId: `r${at}`,
      user: "joe@pve",
      userGroups: [],
      verb: "update",
      resource: "/access/users/{userid}",
      name: "u",
      namespace: "",
      sourceIP: "192.0.2.7",
      userAgent: "curl/8",
      statusCode: 200,
      message: "",
    });
}

const files = (): string[] => readdirSync(dir).filter((name) => name.startsWith("audit-"));

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "gpve-audit-"));
  dir = join(root, "audit");
  complaints = [];
  await open();
});
afterEach(async () => {
  await log.close();
  rmSync(root, { recursive: true });
});

describe("an audit log that has grown too large", () => {
  test("loses its oldest files, and what is left is whole", async () => {
    await append(40);
    expect(files()).toHaveLength(3);
    const kept: number[] = [];
    for await (const { seq } of log.list()) kept.push(seq);
    expect(kept.at(-1)).toBe(40);
    expect(kept.at(0)).toBeGreaterThan(30);
    expect(await log.verify()).toMatchObject({ ok: true, entries: kept.length });
    await log.close();
    expect(await verifyAudit(dir, key)).toMatchObject({ ok: true, head: { seq: 40 } });
    expect(complaints).toEqual([]);
  });

  test("goes on after a restart, and goes on losing them", async () => {
    await append(20);
    await log.close();
    await open();
    await append(20);
    expect(files()).toHaveLength(3);
    expect(await log.verify()).toMatchObject({ ok: true, head: { seq: 40 } });
  });

  test("still tells what somebody else removed", async () => {
    await append(40);
    const [oldest = "", middle = ""] = files();
    const text = readFileSync(join(dir, oldest));
    unlinkSync(join(dir, oldest));
    expect((await log.verify()).issues).toMatchObject([{ kind: "missing", file: middle }]);
    writeFileSync(join(dir, oldest), text);
    unlinkSync(join(dir, middle));
    expect((await log.verify()).issues).toMatchObject([{ kind: "missing" }]);
  });

  test("leaves out a file that a crash kept from going", async () => {
    await append(6);
    const [first = ""] = files();
    const text = readFileSync(join(dir, first));
    await append(34);
    expect(files()).not.toContain(first);
    const [second = ""] = files();
    // As if the file before the oldest was still there.
    await log.close();
    writeFileSync(join(dir, first), text);
    expect(files()[1]).toBe(second);
    expect(await verifyAudit(dir, key)).toMatchObject({ ok: true });
    await open();
    await append(4);
    expect(files()).not.toContain(first);
    expect(complaints).toEqual([]);
  });
});
