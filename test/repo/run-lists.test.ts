// Lists of test files by name: one that was renamed would run at another time, or not at all, and nobody would see it.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { longSoaks } from "../../tools/test/long-soaks.ts";
import { longest } from "../../tools/test/longest-first.ts";
import { waitingFiles } from "../../tools/test/waiting-files.ts";
import { ROOT } from "./source-tree.ts";

const whole = longSoaks.filter(({ isWhole }) => isWhole).map(({ file }) => file);

test("every test file that a list names is there", () => {
  const named = [...longest, ...waitingFiles, ...longSoaks.map(({ file }) => file)];
  expect(named.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

test("no file is named twice, and none that only the long run has", () => {
  for (const list of [longest, waitingFiles]) {
    expect(list.filter((file, at) => list.indexOf(file) !== at)).toEqual([]);
    expect(list.filter((file) => whole.includes(file))).toEqual([]);
  }
});
