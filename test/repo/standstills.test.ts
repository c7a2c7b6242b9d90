import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { watchStandstills } from "../../tools/test/standstills.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("a machine that stood still is told from one that was slow, the longest first", () => {
  let stood = 0;
  const watch = watchStandstills(() => Date.now() + stood);
  vi.advanceTimersByTime(1_000);
  stood += 1_000;
  vi.advanceTimersByTime(1_000);
  stood += 3_000;
  vi.advanceTimersByTime(1_000);
  stood += 7_200;
  vi.advanceTimersByTime(1_000);
  const said = watch.end();
  expect(said).toHaveLength(2);
  expect(said[0]).toMatch(/^the machine stood still for 7\.2 s at \d{4}-/);
  expect(said[1]).toContain(" 3.0 s ");
});
