import { expect, test } from "vitest";
import { expandNotes } from "./notes-template.ts";

const facts = { cluster: "lab", guestname: "web", node: "n1", vmid: "100" };

test("fills in what is known and turns escapes into what they stand for", () => {
  expect(expandNotes("{{guestname}} ({{vmid}}) on {{node}} of {{cluster}}\\nC:\\\\x", facts)).toBe(
    "web (100) on n1 of lab\nC:\\x",
  );
});

test("refuses names and escapes that it does not know", () => {
  expect(() => expandNotes("{{other}}", facts)).toThrow("unexpected variable name 'other'");
  expect(() => expandNotes("a\\tb", facts)).toThrow("unexpected escape character 't'");
});
