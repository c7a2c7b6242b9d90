import { expect, test } from "vitest";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import { shapeProblems } from "./response-shape.ts";

const schema: PveSchema = {
  type: "array",
  items: {
    type: "object",
    properties: {
      name: { type: "string", pattern: "[a-z]+" },
      kind: { type: "string", enum: ["a", "b"], optional: true },
      size: { type: "integer" },
      load: { type: "number", optional: true },
      on: { type: "boolean", optional: true },
      "net[n]": { type: "string" },
    },
  },
};

test("finds nothing wrong with what PVE describes, and with what it does not mention", () => {
  expect(
    shapeProblems(schema, [
      { name: "x", size: 1, load: 0.5, on: 1, kind: "a", more: {} },
      { name: "y", size: 0 },
    ]),
  ).toEqual([]);
  expect(shapeProblems({ type: "null" }, null)).toEqual([]);
  expect(shapeProblems({}, "anything")).toEqual([]);
});

test("names every key of the wrong type, choice or pattern, and every missing one", () => {
  expect(shapeProblems(schema, [{ name: "X1", kind: "c", load: "1", on: "1", size: 1.5 }])).toEqual([
    "[0].name: 'X1' does not match [a-z]+",
    "[0].kind: 'c' is no choice",
    "[0].size: number 1.5, not an integer",
    "[0].load: a string, not a number",
    '[0].on: string "1", not 0 or 1',
  ]);
  expect(shapeProblems(schema, [{ name: 5 }])).toEqual([
    "[0].name: a number, not a string",
    "[0].size: missing",
  ]);
});

test("tells lists, objects and nothing apart", () => {
  expect(shapeProblems(schema, {})).toEqual(["answer: not a list"]);
  expect(shapeProblems(schema, [[]])).toEqual(["[0]: not an object"]);
  expect(shapeProblems(schema, null)).toEqual(["answer: null"]);
  expect(shapeProblems({ type: "null" }, 1)).toEqual(["answer: not null"]);
});
