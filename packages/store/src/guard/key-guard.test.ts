import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compareBytes } from "../keys.ts";
import { KeyGuard } from "./key-guard.ts";

const bytes = (value: string): Uint8Array => new TextEncoder().encode(value);
const text = (value: Uint8Array | undefined): string | undefined =>
  value === undefined ? undefined : new TextDecoder().decode(value);
const guard = new KeyGuard({ read: ["/g/"], hidden: ["/g/s/", "/g/j/"], write: ["/g/t/n1/"] });

describe("what a peer may touch", () => {
  test("a range around hidden keys is cut into what may be seen", () => {
    const parts = guard.visible(bytes("/g/"), bytes("/g0"));
    expect(parts.map((part) => [text(part.start), text(part.end)])).toEqual([
      ["/g/", "/g/j/"],
      ["/g/j0", "/g/s/"],
      ["/g/s0", "/g0"],
    ]);
    expect(guard.visible(bytes("/g/s/x"), undefined)).toEqual([]);
    expect(guard.visible(bytes("/g/s/a"), bytes("/g/s/b"))).toEqual([]);
    expect(guard.visible(bytes("/g/a"), undefined)).toHaveLength(1);
  });

  test("reads outside are refused, also by open ends", () => {
    expect(() => guard.visible(bytes("/h"), undefined)).toThrow(/may not read/);
    expect(() => guard.visible(bytes("/g/"), bytes("/h"))).toThrow(/may not read/);
    expect(() => guard.visible(bytes("/g/"), new Uint8Array([0]))).toThrow(/may not read/);
    expect(() => guard.visible(bytes("/"), bytes("/g/a"))).toThrow(/may not read/);
  });

  test("transactions may write only own keys and compare only visible ones", () => {
    const put = (key: string) => ({ type: "put" as const, key: bytes(key), value: bytes("v") });
    const allow = (request: Parameters<KeyGuard["checkTxn"]>[0]): void => guard.checkTxn(request);
    const exists = { key: bytes("/g/s/k"), target: "version", version: 1, result: "equal" } as const;
    expect(() => allow({ compare: [], success: [put("/g/t/n1/a")] })).not.toThrow();
    expect(() => allow({ compare: [], success: [put("/g/t/n2/a")] })).toThrow(/may not write/);
    expect(() => allow({ compare: [], success: [put("/g/t/n1")] })).toThrow(/may not write/);
    expect(() => allow({ compare: [exists], success: [] })).toThrow(/may not read/);
    const nested = { type: "txn" as const, compare: [], success: [], failure: [put("/g/x")] };
    expect(() => allow({ compare: [], success: [], failure: [nested] })).toThrow(/may not write/);
    const wide = { type: "delete" as const, key: bytes("/g/t/n1/"), end: bytes("/g/t/n9") };
    expect(() => allow({ compare: [], success: [wide] })).toThrow(/may not write/);
    const own = { type: "delete" as const, key: bytes("/g/t/n1/"), end: bytes("/g/t/n10") };
    expect(() => allow({ compare: [], success: [own] })).not.toThrow();
    const look = { type: "range" as const, key: bytes("/g/"), end: bytes("/g0") };
    expect(() => allow({ compare: [], success: [look] })).toThrow(/may not read/);
  });

  test("no interval it lets through contains a hidden key", () => {
    const key = fc
      .array(fc.constantFrom("/", "g", "s", "j", "0", "a"), { maxLength: 6 })
      .map((parts) => bytes(`/g/${parts.join("")}`));
    fc.assert(
      fc.property(key, key, key, (start, end, probe) => {
        if (compareBytes(start, end) >= 0) return;
        const inside = guard
          .visible(start, end)
          .some(
            (part) =>
              compareBytes(part.start, probe) <= 0 &&
              (part.end === undefined || compareBytes(probe, part.end) < 0),
          );
        const wanted =
          compareBytes(start, probe) <= 0 && compareBytes(probe, end) < 0 && !guard.isHidden(probe);
        expect(inside).toBe(wanted);
      }),
    );
  });

  test("prefixes must end with a slash", () => {
    expect(() => new KeyGuard({ read: ["/g"], hidden: [], write: [] })).toThrow(/slash/);
  });
});
