import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseBoundedJson } from "./bounded-json.ts";

const nested = (levels: number): string => `${"[".repeat(levels)}${"]".repeat(levels)}`;

describe("JSON from outside", () => {
  it("is read as ever up to its depth, and refused beyond, closed or not", () => {
    expect(() => parseBoundedJson(nested(64))).not.toThrow();
    for (const text of [nested(65), nested(100_000), "[".repeat(100_000), '{"a":'.repeat(100_000)])
      expect(() => parseBoundedJson(text)).toThrow("nested deeper than 64 levels");
    expect(parseBoundedJson(JSON.stringify("[".repeat(1000)))).toBe("[".repeat(1000));
    expect(parseBoundedJson('["\\"[[[", "\\\\"]', 1)).toEqual(['"[[[', "\\"]);
    expect(() => parseBoundedJson("{")).toThrow(SyntaxError);
  });

  it("means what JSON.parse says", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        expect(parseBoundedJson(text)).toEqual(JSON.parse(text));
      }),
    );
  });
});
