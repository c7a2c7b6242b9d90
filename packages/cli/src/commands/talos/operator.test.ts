import { expect, test } from "vitest";
import { isGone, operatorName } from "./operator.ts";

test("a process of this machine is known to live or to be gone, of others nothing is known", () => {
  const name = operatorName();
  expect(name).toMatch(/@.+, process \d+ \(boot [0-9a-f]{8}, start \d+\)$/);
  expect(isGone(name)).toBe(false);
  // The same number, given to another process since.
  expect(isGone(name.replace(/start \d+/, "start 1"))).toBe(true);
  expect(isGone(name.replace(/process \d+/, "process 4194305"))).toBe(true);
  expect(isGone(name.replace(/boot \w+/, "boot 00000000"))).toBe(false);
  expect(isGone("bob@elsewhere, process 1")).toBe(false);
});
