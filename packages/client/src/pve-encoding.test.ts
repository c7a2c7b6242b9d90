import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeParams, fillPath } from "./pve-encoding.ts";

test("fills the path and leaves the rest", () => {
  expect(fillPath("/nodes/{node}/tasks/{upid}", { node: "n 1", upid: "UPID:x:", limit: 3 })).toEqual({
    path: "/nodes/n%201/tasks/UPID%3Ax%3A",
    rest: { limit: 3 },
  });
});

test("names the value a path lacks", () => {
  expect(() => fillPath("/nodes/{node}", {})).toThrow("/nodes/{node} needs a value for node");
});

test("sends booleans as 0 and 1, arrays as repeated keys, nothing for absent values", () => {
  expect(encodeParams({ a: true, b: false, c: ["x", 1], d: undefined, e: null, f: "" })).toBe(
    "a=1&b=0&c=x&c=1&f=",
  );
});

test("encodes so that a form parser gets back the same text", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ minLength: 1 }), fc.string()), (params) => {
      const back = new URLSearchParams(encodeParams(params));
      for (const [key, value] of Object.entries(params)) expect(back.get(key)).toBe(value);
    }),
  );
});
