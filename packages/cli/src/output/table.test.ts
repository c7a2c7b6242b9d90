import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bytesCell, cellText, durationCell } from "./cell.ts";
import { type Colours, coloursFor } from "./colour.ts";
import { displayWidth, fit, printable } from "./display-width.ts";
import { fieldOf, renderTable } from "./table.ts";

const same = (text: string): string => text;
const plain: Colours = { bold: same, dim: same, red: same, green: same, yellow: same };
const style = { colours: plain, width: undefined, nowMs: 0 };

describe("a table", () => {
  test("has columns as wide as their widest cell and numbers to the right", () => {
    const rows = [
      { name: "n1", mem: 1024, note: "a" },
      { name: "long-name", mem: 5 * 1024 ** 3, note: undefined },
    ];
    const columns = [
      { header: "NAME", field: "name" },
      { header: "MEMORY", field: "mem", format: "bytes" },
      { header: "NOTE", field: "note" },
    ] as const;
    expect(renderTable(rows, columns, style)).toBe(
      "NAME        MEMORY  NOTE\nn1         1.0 KiB  a\nlong-name  5.0 GiB  -\n",
    );
  });

  test("is cut to the terminal at its widest column, never below the header", () => {
    const rows = [{ a: "short", b: "x".repeat(100) }];
    const columns = [
      { header: "A", field: "a" },
      { header: "B", field: "b" },
    ];
    const lines = renderTable(rows, columns, { ...style, width: 30 }).split("\n");
    expect(lines[1]).toBe(`short  ${"x".repeat(22)}…`);
    const narrow = renderTable(rows, columns, { ...style, width: 5 });
    expect(narrow.split("\n")[1]).toBe("short  xxxxxxx…");
  });

  test("what must be read whole stands below its row where there is no room", () => {
    const rows = [
      { a: "one", b: "x".repeat(30), c: "end" },
      { a: "two", b: "short", c: "end" },
    ];
    const columns = [
      { header: "A", field: "a" },
      { header: "B", field: "b", whole: true },
      { header: "C", field: "c" },
    ];
    expect(renderTable(rows, columns, { ...style, width: 20 })).toBe(
      `A    C\none  end\n  ${"x".repeat(30)}\ntwo  end\n  short\n`,
    );
    expect(renderTable(rows, columns, { ...style, width: 60 })).toContain(`one  ${"x".repeat(30)}  end`);
  });

  test("never cuts a number, and shows shares", () => {
    const rows = [{ used: 512, all: 1024, text: "x".repeat(30) }];
    const columns = [
      { header: "USED", field: "used", of: "all", format: "percent" },
      { header: "ALL", field: "all", format: "bytes" },
      { header: "TEXT", field: "text" },
    ] as const;
    expect(renderTable(rows, columns, { ...style, width: 12 })).toBe(
      "  USED      ALL  TEXT\n50.0 %  1.0 KiB  xxxxxxx…\n",
    );
  });

  test("lines up wide characters by cells", () => {
    const rows = [
      { a: "日本", b: 1 },
      { a: "e\u0301x", b: 2 },
    ];
    const columns = [
      { header: "A", field: "a" },
      { header: "B", field: "b" },
    ];
    expect(renderTable(rows, columns, style)).toBe("A     B\n日本  1\ne\u0301x    2\n");
  });

  test("paints states and nothing else", () => {
    const colours = { ...plain, green: (text: string) => `<${text}>` };
    const rows = [{ s: "online" }, { s: "odd" }];
    expect(renderTable(rows, [{ header: "S", field: "s", format: "state" }], { ...style, colours })).toBe(
      "S\n<online>\nodd\n",
    );
  });

  test("never lets server data steer the terminal", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const table = renderTable([{ a: text }], [{ header: "A", field: "a" }], style);
        // oxlint-disable-next-line no-control-regex -- that is the point
        expect(table.slice(2)).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
        expect(table.split("\n")).toHaveLength(3);
      }),
    );
  });
});

describe("widths", () => {
  test("fit never exceeds the width and keeps what fits", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 1, max: 20 }), (text, width) => {
        const safe = printable(text);
        const cut = fit(safe, width);
        expect(displayWidth(cut)).toBeLessThanOrEqual(width);
        if (displayWidth(safe) <= width) expect(cut).toBe(safe);
      }),
    );
  });
});

describe("cells", () => {
  test.each([
    [undefined, "text", "-"],
    [0, "bytes", "0 B"],
    [1023, "bytes", "1023 B"],
    [1024 ** 2 - 1, "bytes", "1.0 MiB"],
    [-2048, "bytes", "-2.0 KiB"],
    ["many", "bytes", "many"],
    [0.1234, "percent", "12.3 %"],
    [1, "boolean", "yes"],
    [0, "boolean", "no"],
    [["a", { name: "b" }, { x: 1 }], "list", 'a,b,{"x":1}'],
    [[], "list", "-"],
    ["a,b", "list", "a,b"],
    [90_061, "duration", "1d1h"],
    [86_400, "duration", "1d"],
    [3600, "duration", "1h"],
    [3660, "duration", "1h1m"],
    [60, "duration", "1m"],
    [61, "duration", "1m1s"],
    [5, "duration", "5s"],
    [1_767_323_045, "time", "2026-01-02 03:04:05Z"],
    ["2026-01-02T03:04:05Z", "time", "2026-01-02 03:04:05Z"],
    [9e15, "time", "9000000000000000"],
    ["soon", "time", "soon"],
    ["1970-01-01T00:00:00Z", "age", "1m40s"],
    ["soon", "age", "soon"],
    [true, "text", "true"],
    ["a\tb\nc\u001b[31m", "text", "a b\\nc\\x1b[31m"],
  ] as const)("%j as %s is %s", (value, format, text) => {
    expect(cellText(value, format, 100_000)).toBe(text);
  });

  test("every number has a short form", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, min: 0, max: 1e15 }), (number) => {
        expect(bytesCell(number)).toMatch(/^[\d.e+-]+ ([KMGTP]i)?B$/);
        expect(durationCell(number)).toMatch(/^(\d+d)?(\d+h)?(\d+m)?(\d+s)?$/);
      }),
    );
  });
});

test("fields are found by key first, then by path, never on prototypes", () => {
  expect(fieldOf({ "a.b": 1, a: { b: 2 } }, "a.b")).toBe(1);
  expect(fieldOf({ a: { b: { c: 3 } } }, "a.b.c")).toBe(3);
  expect(fieldOf({ a: 1 }, "a.b")).toBeUndefined();
  expect(fieldOf({}, "constructor.name")).toBeUndefined();
  expect(fieldOf(undefined, "a")).toBeUndefined();
});

test("colour needs a terminal, and NO_COLOR, TERM=dumb and --no-color refuse it", () => {
  const io = { env: {} } as Parameters<typeof coloursFor>[1];
  const tty = { write: () => undefined, isTTY: true, columns: 80 };
  expect(coloursFor(tty, io, true).red("x")).toBe("\u001b[31mx\u001b[39m");
  expect(coloursFor({ ...tty, isTTY: false }, io, true).red("x")).toBe("x");
  expect(coloursFor(tty, io, false).red("x")).toBe("x");
  expect(coloursFor(tty, { ...io, env: { NO_COLOR: "1" } }, true).red("x")).toBe("x");
  expect(coloursFor(tty, { ...io, env: { NO_COLOR: "" } }, true).red("x")).not.toBe("x");
  expect(coloursFor(tty, { ...io, env: { TERM: "dumb" } }, true).red("x")).toBe("x");
});
