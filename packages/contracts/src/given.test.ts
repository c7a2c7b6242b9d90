import { expect, it } from "vitest";
import { given } from "./given.ts";

it("leaves out what is undefined and nothing else", () => {
  const fields = given({ a: undefined, b: null, c: 0, d: "", e: false });
  expect(fields).toStrictEqual({ b: null, c: 0, d: "", e: false });
  expect("a" in fields).toBe(false);
});
