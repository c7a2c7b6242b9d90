import { describe, expect, test } from "vitest";
import { agreeProtocol } from "./protocol.ts";

describe("protocol agreement", () => {
  test("takes the highest version both speak", () => {
    expect(agreeProtocol({ min: 1, max: 3 }, { min: 2, max: 5 })).toBe(3);
    expect(agreeProtocol({ min: 1, max: 3 }, { min: 1, max: 2 })).toBe(2);
  });

  test("says which side is too old", () => {
    expect(() => agreeProtocol({ min: 3, max: 4 }, { min: 1, max: 2 })).toThrow(/upgrade the agent/);
    expect(() => agreeProtocol({ min: 1, max: 2 }, { min: 3, max: 4 })).toThrow(/upgrade the server/);
  });

  test("refuses a range that makes no sense", () => {
    expect(() => agreeProtocol({ min: 1, max: 1 }, { min: 0, max: 0 })).toThrow(/no valid protocol range/);
    expect(() => agreeProtocol({ min: 1, max: 1 }, { min: 2, max: 1 })).toThrow(/no valid protocol range/);
  });
});
