// A host has each tap once, named by its guest's number: files of guests with cards that run side by side have other numbers.
import { expect, test } from "vitest";
import { read, sources } from "./source-tree.ts";

const FROM = /testBridge\(\{ guestsFrom: (\d+) \}\)/;
const TURNS_FROM = 100;

test("no two files with a bridge of their own number guests from the same hundred", () => {
  const files = sources().filter((path) => path.endsWith(".test.ts") && read(path).includes("testBridge("));
  const users = files.filter((path) => path !== "test/repo/guest-numbers.test.ts");
  const taken = users.map((path) => Number(FROM.exec(read(path))?.[1]));
  expect(users.length).toBeGreaterThan(1);
  expect(taken.every((from) => from % 100 === 0 && from > TURNS_FROM)).toBe(true);
  expect(new Set(taken).size).toBe(users.length);
});
