import fc from "fast-check";
import { expect, it } from "vitest";
import { compareBytes, utf8 } from "../keys.ts";
import { compareUtf8 } from "./byte-order.ts";

it("orders any two texts as their UTF-8 bytes", () => {
  const text = fc.string({ unit: "binary" });
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect(Math.sign(compareUtf8(a, b))).toBe(Math.sign(compareBytes(utf8(a), utf8(b))));
    }),
  );
  expect(compareUtf8("\u{1f600}", "\uffff")).toBeGreaterThan(0);
});
