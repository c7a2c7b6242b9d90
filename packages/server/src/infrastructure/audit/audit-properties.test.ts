// Whatever is done to the bytes, verification says so; whatever is appended, it agrees.
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { linesBackwards, linesFrom } from "./audit-files.ts";
import { openFileAuditLog } from "./file-audit-log.ts";
import { verifyAudit } from "./verify-audit.ts";

const key = Buffer.alloc(32, 3);
let root: string;
let original: string;
let size = 0;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "gpve-audit-"));
  original = join(root, "original");
  const log = await openFileAuditLog({
    dir: original,
    key,
    clock: systemClock,
    log: silentLogger,
    maxFileBytes: 1_500,
  });
  for (let i = 0; i < 12; i++) {
    await log.append({
      timestamp: new Date(i * 1_000).toISOString(),
      requestId: `r${i}`,
      user: "joe@pve",
      userGroups: ["ops"],
      verb: "create",
      resource: "/pools",
      name: `pool${i} é ${i % 3 === 0 ? "\u2028" : ""}`,
      namespace: "",
      sourceIP: "2001:db8::1",
      userAgent: "",
      statusCode: 200,
      message: "",
      extra: { params: { comment: "x\ny", list: [1, null, true] } },
    });
  }
  await log.close();
  size = files(original).reduce((sum, name) => sum + readFileSync(join(original, name)).length, 0);
});

afterAll(() => rmSync(root, { recursive: true }));

const files = (dir: string): string[] =>
  readdirSync(dir)
    .filter((name) => name.endsWith(".jsonl"))
    .toSorted();

async function after(change: (files: Map<string, Buffer>) => void): Promise<boolean> {
  const dir = join(root, "copy");
  cpSync(original, dir, { recursive: true });
  const contents = new Map(files(dir).map((name) => [name, readFileSync(join(dir, name))]));
  change(contents);
  for (const [name, bytes] of contents) writeFileSync(join(dir, name), bytes);
  const { ok } = await verifyAudit(dir, key);
  rmSync(dir, { recursive: true });
  return ok;
}

/** Lines of all files as one list, cut into the same files again afterwards. */
function editLines(contents: Map<string, Buffer>, edit: (lines: string[]) => string[]): void {
  const [name] = [...contents.keys()].slice(-1);
  const [first] = contents.keys();
  for (const each of [name, first]) {
    const lines = (contents.get(each ?? "") ?? Buffer.alloc(0)).toString("utf8").trimEnd().split("\n");
    const edited = edit(lines);
    contents.set(each ?? "", Buffer.from(edited.map((line) => `${line}\n`).join("")));
  }
}

test("an untouched log is fine", async () => {
  expect(await after(() => undefined)).toBe(true);
  expect((await verifyAudit(original, key)).entries).toBe(12);
});

test("any changed byte is found", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(), fc.integer({ min: 1, max: 255 }), async (place, flip) => {
      let at = place % size;
      const ok = await after((contents) => {
        for (const bytes of contents.values()) {
          if (at < bytes.length) {
            bytes[at] = (bytes[at] ?? 0) ^ flip;
            return;
          }
          at -= bytes.length;
        }
      });
      expect(ok).toBe(false);
    }),
    { numRuns: 150 },
  );
});

test("any cut of any file is found", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(), fc.nat(), async (file, place) => {
      const ok = await after((contents) => {
        const name = [...contents.keys()][file % contents.size] ?? "";
        const bytes = contents.get(name) ?? Buffer.alloc(0);
        contents.set(name, bytes.subarray(0, place % bytes.length));
      });
      expect(ok).toBe(false);
    }),
    { numRuns: 80 },
  );
});

test("removed, repeated and swapped lines are found", async () => {
  const edits = fc.constantFrom<((lines: string[]) => string[])[]>(
    (lines) => lines.slice(1),
    (lines) => lines.slice(0, -1),
    (lines) => [...lines, lines[0] ?? ""],
    (lines) => [lines[0] ?? "", ...lines],
    (lines) => (lines.length > 1 ? lines.toReversed() : []),
    (lines) => [...lines, "{}"],
    (lines) => ["", ...lines],
  );
  await fc.assert(
    fc.asyncProperty(edits, async (edit) => {
      expect(await after((contents) => editLines(contents, edit))).toBe(false);
    }),
    { numRuns: 30 },
  );
});

test("lines read backwards are the complete lines read forwards, reversed, at any chunk size", async () => {
  const text = fc.array(fc.string({ unit: fc.constantFrom("a", "é", "{", " ") }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(text, fc.boolean(), fc.integer({ min: 1, max: 9 }), async (lines, torn, chunk) => {
      writeFileSync(join(root, "lines"), lines.map((line) => `${line}\n`).join("") + (torn ? "torn" : ""));
      const forwards: string[] = [];
      for await (const line of linesFrom(root, "lines"))
        if (line.complete) forwards.push(line.bytes.toString());
      const backwards: string[] = [];
      for await (const line of linesBackwards(root, "lines", chunk)) backwards.push(line.toString());
      expect(forwards).toEqual(lines);
      expect(backwards.toReversed()).toEqual(lines);
    }),
  );
});
