import { expect, test } from "vitest";
import { requireClock, requireSameMinor } from "./join-checks.ts";

test("a clock that is off is refused with how far, and what to do", () => {
  requireClock("n2", 0, 1_000_000);
  requireClock("n2", 1_000_000 + 59_000, 1_000_000);
  expect(() => requireClock("n2", 1_000_000 + 300_000, 1_000_000)).toThrow(
    /clock of n2 is 300 s ahead of this server's .*set it right/,
  );
  expect(() => requireClock("n2", 1_000_000, 1_000_000 + 61_000)).toThrow(/61 s behind/);
});

test("servers of one minor version share a cluster", () => {
  requireSameMinor("0.1.0", "0.1.7");
  expect(() => requireSameMinor("0.2.0", "0.1.7")).toThrow(
    /version 0.2.0 cannot join a cluster of version 0.1.7/,
  );
});
