import { expect, test } from "vitest";
import { sameText } from "./same-bytes.ts";

test("texts are the same whole or not at all", () => {
  expect([sameText("", ""), sameText("ä", "ä"), sameText("a", "b"), sameText("a", "ab")]).toEqual([
    true,
    true,
    false,
    false,
  ]);
});
