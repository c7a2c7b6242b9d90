import { expect, test } from "vitest";
import type { AccessView } from "../../request/context.ts";
import { requireTagAccess, storedTags, type TagRules } from "./tags.ts";

test("tags are stored once each, in lower case and sorted, unless the datacenter says otherwise", () => {
  expect(storedTags("B a,b;a")).toBe("a;b");
  expect(storedTags("B a", { style: "case-sensitive=1" })).toBe("B;a");
  expect(storedTags("b A;b", { style: "shape=full,ordering=config" })).toBe("b;a");
  expect(storedTags("")).toBe("");
});

const viewer = (may: boolean): AccessView => ({
  privileges: () => new Map(),
  has: () => may,
  require: () => undefined,
});
const change = (before: string | undefined, after: string, rules: TagRules, may = false) =>
  requireTagAccess(before, after, rules, viewer(may), () => ["used;old"]);

test("tags that somebody registered, or that are not on the list, need Sys.Modify", () => {
  expect(() => change(undefined, "a;b", {})).not.toThrow();
  expect(() => change("a", "a;b", { registered: "a" })).not.toThrow();
  expect(() => change("a", "b", { registered: "a;x" })).toThrow(
    "Permission check failed (/, Sys.Modify for modifying tag 'a')",
  );
  expect(() => change("a", "b", { registered: "a;x" }, true)).not.toThrow();
  const listed = { access: "user-allow=list,user-allow-list=a;b" };
  expect(() => change(undefined, "a", listed)).not.toThrow();
  expect(() => change(undefined, "used", listed)).toThrow("modifying tag 'used'");
  expect(() => change(undefined, "used", { access: "user-allow=existing" })).not.toThrow();
  expect(() => change(undefined, "a", { access: "user-allow=none,user-allow-list=a" })).toThrow("tag 'a'");
});
