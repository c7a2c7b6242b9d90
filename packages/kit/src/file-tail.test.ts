import { mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync, appendFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { readFileTail } from "./file-tail.ts";

const folder = mkdtempSync(join(tmpdir(), "gpve-tail-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (name: string): string => join(folder, name);

it("reads the end of a file that would not fit into memory", () => {
  writeFileSync(at("log"), "begin");
  truncateSync(at("log"), 64 * 1024 ** 3);
  appendFileSync(at("log"), "the end");
  const before = process.memoryUsage().arrayBuffers;
  expect(readFileTail(at("log"), 4_000)).toMatch(/^\0+the end$/);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1024 * 1024);
});

it("reads a short file whole, and nothing where nothing is", () => {
  writeFileSync(at("short"), "all of it");
  symlinkSync(at("short"), at("link"));
  expect(readFileTail(at("short"), 4_000)).toBe("all of it");
  for (const name of ["none", "link", "."]) expect(readFileTail(at(name), 4_000)).toBe("");
});
