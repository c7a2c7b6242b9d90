import { expect, test } from "vitest";
import { fieldsOf, isObject } from "./json-object.ts";

test.each([[undefined], [null], [[]], [[{}]], ["{}"], [1], [true]])(
  "%j is no object, and has no fields",
  (value) => {
    expect(isObject(value)).toBe(false);
    expect(fieldsOf(value)).toEqual({});
  },
);

test("an object is one, and has its own fields", () => {
  expect(isObject({})).toBe(true);
  expect(fieldsOf({ a: 1 })).toEqual({ a: 1 });
});
