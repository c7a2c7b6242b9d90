import { expect, test } from "vitest";
import { readAskedRun } from "../../tools/test/asked-run.ts";

test("a run is of one part or of all, and long or strict where that is said", () => {
  expect(readAskedRun([])).toEqual({ isLong: false, isStrict: false, only: undefined });
  expect(readAskedRun(["--strict", "unit"])).toEqual({ isLong: false, isStrict: true, only: "unit" });
  expect(readAskedRun(["--long"]).isLong).toBe(true);
});

test.each([[["--strcit"]], [["units"]], [["unit", "check"]], [["--long=no"]], [["-s"]]])(
  "%j is refused with what can be said",
  (words) => {
    expect(() => readAskedRun(words)).toThrow(
      "usage: ./gpve test [check|unit|integration] [--long] [--strict]",
    );
  },
);
