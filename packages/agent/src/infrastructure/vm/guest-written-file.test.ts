import { existsSync, linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { takeGuestFile } from "./guest-written-file.ts";

let folder: string;
let path: string;
let host: string;
const uid = process.getuid?.() ?? 0;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-taken-"));
  [path, host] = [join(folder, "screen.ppm"), join(folder, "of-the-host")];
  writeFileSync(host, "secret");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("what a guest wrote is read and gone", async () => {
  writeFileSync(path, "picture");
  expect(Buffer.from(await takeGuestFile(path, uid)).toString()).toBe("picture");
  expect(existsSync(path)).toBe(false);
});

test.each([
  ["a link", () => symlinkSync(host, path)],
  ["a second name of a file", () => linkSync(host, path)],
  ["a folder", () => mkdirSync(path)],
])("%s in its place is not followed, and the file of the host stays", async (_what, put) => {
  put();
  await expect(takeGuestFile(path, uid)).rejects.toThrow();
  expect(existsSync(host)).toBe(true);
});

test("a pipe in its place keeps nobody waiting, nor does another's file count", async () => {
  await exec("mkfifo", [path]);
  await expect(takeGuestFile(path, uid)).rejects.toThrow("not what the guest was asked for");
  expect(existsSync(path)).toBe(false);
  writeFileSync(path, "picture");
  await expect(takeGuestFile(path, uid + 1)).rejects.toThrow("not what the guest was asked for");
});
