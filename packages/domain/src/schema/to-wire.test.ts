import { describe, expect, it } from "vitest";
import { formatSize, parseSize } from "./size.ts";
import { toWire } from "./to-wire.ts";

describe("toWire", () => {
  it("writes booleans as numbers and drops what is undefined", () => {
    expect(
      toWire(undefined, { a: true, b: undefined, c: [false, { d: true }, undefined], e: "x", f: null }),
    ).toEqual({
      a: 1,
      c: [0, { d: 1 }, null],
      e: "x",
      f: null,
    });
    expect(Object.keys(toWire(undefined, { b: undefined }) as object)).toEqual([]);
    expect(toWire(undefined, 5n)).toBe(5);
  });

  it("gives null for nothing", () => {
    expect(toWire({ type: "null" }, undefined)).toBeNull();
    expect(toWire({ type: "null" }, true)).toBeNull();
    expect(toWire({ type: "null" }, "UPID")).toBe("UPID");
    expect(toWire(undefined, null)).toBeNull();
  });

  it("does not copy what needs no change", () => {
    const rows = Array.from({ length: 20_000 }, (_, vmid) => ({ vmid, name: `vm${vmid}`, cpu: 0.5, mem: 1 }));
    expect(toWire(undefined, rows)).toBe(rows);
  });
});

describe("sizes", () => {
  it.each([
    ["32G", 32 * 1024 ** 3, "32G"],
    ["1.5T", 1.5 * 1024 ** 4, "1536G"],
    ["528K", 528 * 1024, "528K"],
    ["1000", 1000, "1000"],
    ["1024MiB", 1024 ** 3, "1G"],
    ["0", 0, "0"],
  ])("reads %s and writes it in the largest exact unit", (text, bytes, written) => {
    expect(parseSize(text)).toBe(bytes);
    expect(formatSize(bytes)).toBe(written);
  });

  it("refuses what is no size", () => {
    for (const text of ["", "G", "1E", "-1", "9".repeat(40)]) expect(parseSize(text)).toBeUndefined();
  });
});
