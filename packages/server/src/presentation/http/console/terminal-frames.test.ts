import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TerminalFrames, type TerminalEvent } from "./terminal-frames.ts";

function read(bytes: Buffer, cuts: readonly number[] = []): TerminalEvent[] {
  const frames = new TerminalFrames();
  const events: TerminalEvent[] = [];
  let at = 0;
  for (const cut of cuts) {
    events.push(...frames.push(bytes.subarray(at, at + cut)));
    at += cut;
  }
  events.push(...frames.push(bytes.subarray(at)));
  return events;
}

describe("what a terminal's client says", () => {
  test("is understood however it is cut", () => {
    const data = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(fc.array(data, { maxLength: 5 }), fc.array(fc.nat(20), { maxLength: 30 }), (keys, cuts) => {
        const parts = keys.flatMap((bytes) => [
          Buffer.from(`0:${bytes.length}:`),
          bytes,
          Buffer.from("2"),
          Buffer.from("1:80:24:"),
        ]);
        const sent = Buffer.concat([Buffer.from("joe@pve!ci:PVEVNC:1::x=\n"), ...parts]);
        expect(read(sent, cuts)).toEqual([
          { kind: "login", user: "joe@pve!ci", ticket: "PVEVNC:1::x=" },
          ...keys.flatMap((bytes) => [
            { kind: "input", bytes },
            { kind: "resize", columns: 80, rows: 24 },
          ]),
        ]);
      }),
    );
  });

  test("never breaks the reader, whatever it is", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        let said = "not what a terminal's client says";
        try {
          read(Buffer.concat([Buffer.from("a:b\n"), bytes]));
        } catch (err) {
          said = (err as Error).message;
        }
        expect(said).toContain("not what a terminal's client says");
      }),
    );
  });

  test.each(["nobody\n", "x".repeat(3000), `a:${"x".repeat(3000)}\n`])(
    "is refused without a login: %#",
    (text) => {
      expect(() => read(Buffer.from(text))).toThrow("not what");
    },
  );

  test("takes a size below zero for none", () => {
    const events = read(Buffer.from("joe@pve:PVEVNC:1\n1:-1:-1:1:-2147483648:5:0:1:x"));
    expect(events.slice(1)).toEqual([{ kind: "input", bytes: Buffer.from("x") }]);
  });

  test.each([
    "9",
    "0:x:",
    "0:-1:",
    "0:200000:",
    "0x1:1:",
    "1:80:",
    `0:${"1".repeat(40)}`,
    "1:1:111111111111111111:",
  ])("is refused or waited for when it is no frame: %s", (text) => {
    const sent = Buffer.from(`a:b\n${text}`);
    if (text === "1:80:") expect(read(sent)).toHaveLength(1);
    else expect(() => read(sent)).toThrow("not what");
  });
});
