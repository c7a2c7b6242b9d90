import { mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { leftBehind, thingsOfTests } from "../../tools/test/left-behind.ts";

test("a run names what it left, a group of several hierarchies once", () => {
  const before = new Set(["/tmp/gpve-old"]);
  const after = new Set([
    "/tmp/gpve-old",
    "/tmp/gpve-new",
    "/sys/fs/cgroup/cpu/gpve-1",
    "/sys/fs/cgroup/pids/gpve-1",
  ]);
  expect(leftBehind(before, after)).toEqual(["/sys/fs/cgroup/pids/gpve-1", "/tmp/gpve-new"]);
});

test("folders of tests are found, the run's own aside", () => {
  const folder = join(tmpdir(), `gpve-left-${process.pid}`);
  mkdirSync(folder);
  try {
    expect(thingsOfTests().has(folder)).toBe(true);
    expect(thingsOfTests(folder).has(folder)).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
