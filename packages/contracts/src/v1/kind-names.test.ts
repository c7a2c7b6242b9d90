import { expect, test } from "vitest";
import { storageKind } from "./kinds/storage.ts";

test("words about names ask for as many letters as the pattern does", () => {
  const pattern = new RegExp(storageKind.namePattern, "u");
  expect(["a", "ab"].map((name) => pattern.test(name))).toEqual([false, true]);
  expect(storageKind.nameWords).toMatch(/^at least two letters/);
});
