import { expect, test } from "vitest";
import { nearest } from "./nearest.ts";

test("finds the word that was meant, and none where nothing is near", () => {
  const known = ["memory", "cores", "net0", "debian12", "debian13"];
  expect(nearest("memry", known)).toBe("memory");
  expect(nearest("debina12", known)).toBe("debian12");
  expect(nearest("Cores", known)).toBe("cores");
  expect(nearest("foo", known)).toBeUndefined();
  expect(nearest("", known)).toBeUndefined();
});
