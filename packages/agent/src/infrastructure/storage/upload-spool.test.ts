import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { UploadSpool } from "./upload-spool.ts";

let directory: string;
let wanted: Set<string>;
let spool: UploadSpool;
const { signal } = new AbortController();
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "gpve-spool-"));
  wanted = new Set();
  spool = new UploadSpool({ directory, node: "n1", isWanted: (path) => wanted.has(path), reserveBytes: 0 });
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

async function* body(...parts: (string | Error)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) {
    if (part instanceof Error) throw part;
    yield await Promise.resolve(Buffer.from(part));
  }
}

test("a body is kept for root alone, under a name of its own", async () => {
  const [path, other] = [await spool.place(6), await spool.place(6)];
  expect(path).not.toBe(other);
  expect(await spool.store(path, body("abc", "def"), signal)).toBe(6);
  expect(readFileSync(path, "utf8")).toBe("abcdef");
  expect(statSync(path).mode & 0o777).toBe(0o600);
  await expect(spool.store(path, body("again"), signal)).rejects.toThrow("EEXIST");
});

test("what breaks off leaves nothing, and what does not fit is not begun", async () => {
  const broken = spool.store(await spool.place(6), body("abc", new Error("cut off")), signal);
  await expect(broken).rejects.toThrow("cut off");
  const stopped = spool.store(await spool.place(6), body("abc"), AbortSignal.abort(new Error("gone")));
  await expect(stopped).rejects.toThrow("gone");
  expect(readdirSync(directory)).toEqual([]);
  await expect(spool.place(Number.MAX_SAFE_INTEGER)).rejects.toMatchObject({ code: "capacity.exceeded" });
});

test("nothing is discarded that an operation reads, or that is not the spool's", async () => {
  const elsewhere = join(tmpdir(), `gpve-not-spooled-${process.pid}`);
  const [kept, gone] = [join(directory, "upload-1"), join(directory, "upload-2")];
  for (const path of [elsewhere, kept, gone]) writeFileSync(path, "x");
  wanted.add(kept);
  for (const path of [elsewhere, kept, gone]) await spool.discard(path);
  expect(readdirSync(directory)).toEqual(["upload-1"]);
  expect(readFileSync(elsewhere, "utf8")).toBe("x");
  rmSync(elsewhere);
});

test("bodies whose upload was cut off by a crash go at the start, those of operations stay", async () => {
  for (const name of ["upload-1", "upload-2", "upload-3"]) writeFileSync(join(directory, name), "x");
  wanted.add(join(directory, "upload-2"));
  await spool.sweep();
  expect(readdirSync(directory)).toEqual(["upload-2"]);
});
