import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { coverageThresholds, missedCoverage, type CoverageSummary } from "../../tools/test/coverage-gate.ts";

const counted = (lines: number, branches: number) => ({
  lines: { total: 100, covered: lines },
  branches: { total: 50, covered: branches },
});
const names = Object.keys(coverageThresholds).map((glob) => glob.split("/")[1] ?? "");
const all = (of: ReturnType<typeof counted>): CoverageSummary =>
  Object.fromEntries(names.map((name) => [`/gpve/packages/${name}/src/a.ts`, of]));

test("every package that is not left out has a threshold", () => {
  const leftOut = new Set(["bin", "supervisor"]);
  expect(names.toSorted()).toEqual(readdirSync("packages").filter((name) => !leftOut.has(name)));
});

test("a package is judged by all of its files together, whatever others and the total have", () => {
  const enough = { ...all(counted(80, 40)), total: counted(0, 0) };
  expect(missedCoverage(enough, "/gpve")).toEqual([]);
  const even = { ...enough, "/gpve/packages/kit/src/b.ts": counted(79, 41) };
  expect(missedCoverage(even, "/gpve")).toEqual([
    "coverage of packages/kit: 159 of 200 lines, less than 80 %",
  ]);
});

test("a package of which nothing was counted has not passed", () => {
  expect(missedCoverage({}, "/gpve")).toHaveLength(names.length);
});
