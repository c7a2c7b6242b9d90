import { describe, expect, test } from "vitest";
import { judgeFirstTries, knownCauses, type KnownCause } from "../../tools/test/first-tries.ts";

const causes: readonly KnownCause[] = [
  { reason: "the timer was lost", says: /timer doesn't work/, until: "2026-12-31" },
];
const judge = (failures: readonly string[], today = "2026-11-16") =>
  judgeFirstTries([{ file: "a.test.ts", failures }], today, causes);

describe("a file that fails at its first try", () => {
  test("is excused by a known cause", () => {
    const { excused, unexplained } = judge(["Kernel panic: IO-APIC + timer doesn't work!"]);
    expect(excused).toEqual([{ file: "a.test.ts", reason: "the timer was lost" }]);
    expect(unexplained).toEqual([]);
  });

  test.each([
    ["another cause", ["expected 1 to be 2"]],
    ["a known cause and another", ["timer doesn't work", "expected 1 to be 2"]],
    ["no word at all", []],
  ])("is not excused by %s", (_name, failures) => {
    expect(judge(failures)).toEqual({ excused: [], unexplained: [{ file: "a.test.ts", failures }] });
  });

  test("is not excused after the cause's day", () => {
    expect(judge(["timer doesn't work"], "2026-12-31").excused).toHaveLength(1);
    expect(judge(["timer doesn't work"], "2027-01-01").unexplained).toHaveLength(1);
  });
});

test("the list of causes is short, each with its reason and a day within a year", () => {
  expect(knownCauses.length).toBeLessThanOrEqual(5);
  const inAYear = new Date(Date.now() + 366 * 86_400_000).toISOString().slice(0, 10);
  for (const { reason, until } of knownCauses) {
    expect(reason.length).toBeGreaterThan(20);
    expect(until).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(until < inAYear).toBe(true);
  }
});
