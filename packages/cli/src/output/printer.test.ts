import { expect, test } from "vitest";
import type { CliIo } from "../io.ts";
import { Printer } from "./printer.ts";

test("facts are one to a line, and so are sentences", () => {
  const lines: string[] = [];
  const io = {
    stdout: { write: (text: string) => void lines.push(text), isTTY: false },
    clock: { now: () => 0 },
    env: {},
  } as unknown as CliIo;
  const out = new Printer({ io, format: "table", colour: false, quiet: false });
  out.facts({ name: "web", tags: ["a", "b"], notes: ["It runs slowly, by TCG", "net0 is outward only"] }, [
    { header: "Name", field: "name" },
    { header: "Tags", field: "tags", format: "list" },
    { header: "Remarks", field: "notes", format: "sentences" },
    { header: "Lock", field: "lock" },
  ]);
  expect(lines.join("")).toBe(
    "Name:     web\nTags:     a,b\nRemarks:  It runs slowly, by TCG\n          net0 is outward only\n",
  );
});
