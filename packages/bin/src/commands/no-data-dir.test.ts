// A typing error in --data: commands that look at what is there, or end it, make no directory of that name.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Io } from "../io.ts";
import { down } from "./down.ts";
import { lab } from "./lab.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-no-data-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const io = (said: string[]): Io => ({
  out: (text) => void said.push(text),
  err: (text) => void said.push(text),
  isTerminal: false,
  env: {},
});

test("down --guests says that nothing is there, not that guests have ended", async () => {
  const path = join(folder, "tpyo");
  const said: string[] = [];
  expect(await down(["--guests", "--data", path], io(said))).toBe(0);
  expect(said).toEqual([expect.stringContaining(`gpve is not running on ${path}: nothing of it is there`)]);
  expect(existsSync(path)).toBe(false);
});

test("lab refuses", async () => {
  const path = join(folder, "tpyo");
  await expect(lab(["kill", "n1", "--data", path], io([]))).rejects.toThrow(`${path} holds no cluster`);
  expect(existsSync(path)).toBe(false);
});
