import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalJson } from "./canonical-json.ts";

test("the order of keys does not matter, absent members are left out", () => {
  expect(canonicalJson({ b: [{ d: 1, c: undefined }], a: null })).toBe('{"a":null,"b":[{"d":1}]}');
  expect(canonicalJson(JSON.parse('{"b":1,"__proto__":2}'))).toBe('{"__proto__":2,"b":1}');
});

test("reading it back and writing it again gives the same text", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = canonicalJson(value);
      expect(canonicalJson(JSON.parse(text))).toBe(text);
    }),
  );
});
