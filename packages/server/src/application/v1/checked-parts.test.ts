import { expect, test } from "vitest";
import { checkedParts } from "./checked-parts.ts";

test("each part is tried, and one that fails says why", async () => {
  const checks = await checkedParts({
    store: () => Promise.reject(new Error("the disk is gone")),
    cache: () => Promise.resolve(7),
  });
  expect(checks).toEqual([
    { name: "store", ok: false, detail: "the disk is gone" },
    { name: "cache", ok: true },
  ]);
});
