import { describe, expect, test } from "vitest";
import { requireUpgradePath } from "./upgrade-path.ts";

describe("the way of an upgrade", () => {
  test.each([
    ["1.35.4", "1.36.3"],
    ["1.36.3", "1.36.4"],
    ["1.36.4", "1.37.0-rc.1"],
  ])("goes from %s to %s", (from, to) => {
    expect(() => requireUpgradePath("demo", from, to)).not.toThrow();
  });

  test.each([
    ["1.36.4", "1.36.4", "that is what it runs"],
    ["1.36.4", "1.35.6", "do not go back"],
    ["1.36.4", "1.36.3", "do not go back"],
    ["1.34.4", "1.36.4", "go to 1.35 first"],
    ["1.36.4", "2.0.0", "another major"],
    ["1.36.4", "newest", "versions are like 1.36.4"],
  ])("does not go from %s to %s", (from, to, why) => {
    expect(() => requireUpgradePath("demo", from, to)).toThrow(why);
  });
});
