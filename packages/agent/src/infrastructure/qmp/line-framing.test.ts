import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LineFraming } from "./line-framing.ts";

describe("line framing", () => {
  it("gives the same lines however the bytes are cut", () => {
    const line = fc
      .string({ unit: "grapheme", minLength: 1 })
      .filter((text) => !/[\n\r]/.test(text) && text.isWellFormed());
    fc.assert(
      fc.property(fc.array(line), fc.array(fc.integer({ min: 1, max: 7 })), (lines, cuts) => {
        const bytes = Buffer.from(lines.map((text) => `${text}\r\n`).join(""));
        const framing = new LineFraming();
        const seen: string[] = [];
        let at = 0;
        let turn = 0;
        while (at < bytes.length) {
          const size = cuts[turn++ % Math.max(cuts.length, 1)] ?? bytes.length;
          // One buffer for all that is read, as sockets have it.
          const chunk = Buffer.from(bytes.subarray(at, at + size));
          seen.push(...framing.push(chunk));
          chunk.fill(0x0a);
          at += size;
        }
        expect(seen).toEqual(lines);
      }),
    );
  });

  it("keeps an unfinished line until its end arrives and can forget it", () => {
    const framing = new LineFraming();
    expect(framing.push(Buffer.from("half"))).toEqual([]);
    framing.reset();
    expect(framing.push(Buffer.from("whole\n\nnext\n"))).toEqual(["whole", "next"]);
  });

  it("refuses a line without end", () => {
    const framing = new LineFraming(10);
    expect(() => framing.push(Buffer.from("12345678901"))).toThrow("longer than 10 bytes");
    expect(framing.push(Buffer.from("ok\n"))).toEqual(["ok"]);
  });
});
