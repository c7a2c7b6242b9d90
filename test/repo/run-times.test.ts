import { expect, test } from "vitest";
import { processorTimes, RunTimes } from "../../tools/test/run-times.ts";

test("a run says how long its parts took, how busy the processors were, and its slowest files", () => {
  let now = 0;
  const processors = { idle: 0, all: 0 };
  const times = new RunTimes(
    () => now,
    () => ({ ...processors }),
  );
  const checks = times.begin("checks");
  now += 61_000;
  processors.all += 122_000;
  processors.idle += 12_200;
  checks();
  const tests = times.begin("tests");
  const lane = times.begin("tests that wait", true);
  now += 300_000;
  lane();
  now += 300_000;
  tests();
  times.add([
    { file: "a.test.ts", ms: 1_000 },
    { file: "b.test.ts", ms: 3_000 },
  ]);
  times.add([{ file: "c.test.ts", ms: 2_000 }]);
  expect(times.lines(2)).toEqual([
    "times:",
    "    1:01  checks (processors 90 % busy)",
    "    5:00  tests that wait (beside each other)",
    "   10:00  tests (processors 0 % busy)",
    "   11:01  in all",
    "    0:03  b.test.ts",
    "    0:02  c.test.ts",
  ]);
});

test("processors count their idle time within all of it", () => {
  const { idle, all } = processorTimes();
  expect(idle).toBeGreaterThanOrEqual(0);
  expect(all).toBeGreaterThan(idle);
});
