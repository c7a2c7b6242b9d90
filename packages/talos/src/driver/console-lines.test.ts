import fc from "fast-check";
import { expect, test } from "vitest";
import { ConsoleLines } from "./console-lines.ts";

function heard(...pieces: readonly string[]): readonly string[] {
  const lines = new ConsoleLines();
  for (const piece of pieces) lines.add(Buffer.from(piece));
  return lines.lines;
}

test("lines are put together from pieces, the last one also when it has not ended", () => {
  expect(heard("[talos] wait", "ing for network\r\n", "\r\n[talos] no link")).toEqual([
    "[talos] waiting for network",
    "[talos] no link",
  ]);
  const umlaut = Buffer.from("ü\n");
  const lines = new ConsoleLines();
  lines.add(umlaut.subarray(0, 1));
  lines.add(umlaut.subarray(1));
  expect(lines.lines).toEqual(["ü"]);
});

test("what would move a cursor, colour a line or name a window is left out", () => {
  expect(heard("\u001B[2J\u001B[1;31mred\u001B[0m\u001B]0;title\u0007 end\u0008\n")).toEqual(["red end"]);
});

test("only the last ones are kept, and long ones are cut", () => {
  const lines = heard(Array.from({ length: 40 }, (_none, at) => `line ${at}\n`).join(""), "x".repeat(9_000));
  expect(lines).toHaveLength(12);
  expect(lines[0]).toBe("line 29");
  expect(lines.at(-1)).toBe("x".repeat(160));
});

test("nothing that a terminal obeys gets through, whatever comes in which pieces", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 60 })), (pieces) => {
      const lines = new ConsoleLines();
      for (const piece of pieces) lines.add(piece);
      for (const line of lines.lines) expect(line).not.toMatch(/\p{Cc}/u);
    }),
  );
});
