import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readVzdumpFile } from "./vzdump-file.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-vzdump-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a node's vzdump.conf is read where there is one, and what is wrong in it is said", () => {
  const file = join(folder, "vzdump.conf");
  const warnings: unknown[] = [];
  const log = { warn: (fields: object, text: string) => void warnings.push({ ...fields, text }) };
  const none = readVzdumpFile(file, log);
  expect(warnings).toEqual([]);
  writeFileSync(file, "bwlimit: 512\nno such line\n");
  expect(readVzdumpFile(file, log)).toEqual({ ...none, bwlimit: 512 });
  expect(warnings).toMatchObject([{ file }]);
});
