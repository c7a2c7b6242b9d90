import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeDirectory } from "./make-directory.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "gpve-make-directory-"));
});
afterEach(() => rmSync(root, { recursive: true }));

test("makes a directory with all it lies in, whoever else does so too", async () => {
  const path = join(root, "a/b/c");
  await Promise.all([makeDirectory(path, 0o711), makeDirectory(path, 0o711), makeDirectory(path, 0o711)]);
  expect(statSync(path).isDirectory()).toBe(true);
  expect(statSync(join(root, "a")).mode & 0o777).toBe(0o711);
});

test("gives up where a file system takes no directories", async () => {
  await expect(makeDirectory("/proc/gpve-none/images", 0o711)).rejects.toThrow(
    "mkdir /proc/gpve-none: no such file or directory",
  );
});

test("does not take a file for a directory", async () => {
  writeFileSync(join(root, "file"), "");
  await expect(makeDirectory(join(root, "file"), 0o711)).rejects.toMatchObject({
    code: "node.unavailable",
    message: `mkdir ${join(root, "file")}: file already exists`,
  });
});
