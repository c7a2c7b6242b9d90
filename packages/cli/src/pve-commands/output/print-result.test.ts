import { expect, test } from "vitest";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import { prettyJson } from "./perl-json.ts";
import { printResult, type OutputStyle } from "./print-result.ts";
import { valueText } from "./value-text.ts";

const plain: OutputStyle = {
  format: "text",
  quiet: false,
  border: true,
  header: true,
  utf8: false,
  humanReadable: true,
  columns: undefined,
};

function printed(
  data: unknown,
  returns: PveSchema,
  style: Partial<OutputStyle> = {},
  columns?: readonly string[],
): string {
  const lines: string[] = [];
  printResult(data, returns, { ...plain, ...style }, (line) => lines.push(line), columns);
  return lines.join("\n");
}

const users: PveSchema = {
  type: "array",
  items: {
    type: "object",
    properties: {
      userid: { type: "string" },
      enable: { type: "boolean", optional: true },
      comment: { type: "string", optional: true, maxLength: 6 },
    },
  },
};
const rows = [
  { userid: "zoe@pve", enable: 1, comment: "long text" },
  { userid: "joe@pve", enable: 0 },
];

test("rows are a table, needed columns first, sorted by the first", () => {
  expect(printed(rows, users)).toBe(
    [
      "+---------+--------+--------+",
      "| userid  | commen | enable |",
      "+=========+========+========+",
      "| joe@pve |        | 0      |",
      "+---------+--------+--------+",
      "| zoe@pve | long t | 1      |",
      "+---------+--------+--------+",
    ].join("\n"),
  );
  expect(printed(rows, users, { border: false, header: false })).toBe("joe@pve        0\nzoe@pve long t 1");
  expect(printed(rows, users, { utf8: true }).split("\n")[0]).toBe("┌─────────┬────────┬────────┐");
  expect(printed(rows, users, { columns: 9 }).split("\n")[1]).toBe("| userid ");
  expect(printed(rows, users, {}, ["enable"]).split("\n")).toHaveLength(7);
  expect(printed([], users)).toBe("");
});

test("numbers stand to the right, as their titles do; a double line is below the titles", () => {
  const schema: PveSchema = {
    type: "array",
    items: {
      type: "object",
      properties: { node: { type: "string" }, maxmem: { type: "integer", renderer: "bytes" } as PveSchema },
    },
  };
  const nodes = [
    { node: "n1", maxmem: 2 ** 30 },
    { node: "n2", maxmem: 2 ** 34 },
  ];
  expect(printed(nodes, schema, { utf8: true })).toBe(
    [
      "┌───────────┬──────┐",
      "│    maxmem │ node │",
      "╞═══════════╪══════╡",
      "│  1.00 GiB │ n1   │",
      "├───────────┼──────┤",
      "│ 16.00 GiB │ n2   │",
      "└───────────┴──────┘",
    ].join("\n"),
  );
  expect(printed(nodes, schema, { border: false })).toBe("   maxmem node\n 1.00 GiB n1\n16.00 GiB n2");
});

test("an object is keys and values, indexed ones by their stem", () => {
  const schema: PveSchema = {
    type: "object",
    properties: {
      "net[n]": { type: "string", indexRange: [0, 31], optional: true },
      // As the schema has it of answers.
      "scsi[n]": { type: "string", optional: true },
      name: { type: "string" },
    },
  };
  const config = { net0: "virtio", name: "web", unknown: 1, scsi30: "local:1" };
  const text = printed(config, schema, { border: false, header: false });
  expect(text).toBe("name   web\nnet0   virtio\nscsi30 local:1");
  expect(printed({ b: 1, a: [2] }, { type: "object" }, { border: false, header: false })).toBe(
    "a   [2]\nb   1",
  );
});

test("lists of texts, and single values", () => {
  const texts: PveSchema = { type: "array", items: { type: "string" } };
  expect(printed(["b", "a"], texts, { border: false })).toBe("a\nb");
  expect(printed("UPID:x", { type: "string" })).toBe("UPID:x");
  expect(printed("x", { type: "null" })).toBe("");
  expect(printed("x", { type: "string" }, { quiet: true })).toBe("");
});

test("other formats", () => {
  expect(printed({ b: 1, a: "x" }, { type: "object" }, { format: "json" })).toBe('{"a":"x","b":1}');
  expect(printed({ b: [], a: [1, {}] }, { type: "object" }, { format: "json-pretty" })).toBe(
    '{\n   "a" : [\n      1,\n      {}\n   ],\n   "b" : []\n}',
  );
  expect(printed({ a: 1 }, { type: "object" }, { format: "yaml" })).toBe("---\na: 1");
  expect(prettyJson(null)).toBe("null");
});

test.each([
  [1536, { renderer: "bytes" }, "1.50 KiB"],
  [12, { renderer: "bytes" }, "12.00 B"],
  [90_061, { renderer: "duration" }, "1d 1h 1m 1s"],
  [0.256, { renderer: "fraction_as_percentage" }, "25.60%"],
  [0, { renderer: "timestamp_gmt" }, "1970-01-01 00:00:00"],
  [{ a: 1 }, { renderer: "yaml" }, "a: 1"],
  [true, { type: "boolean" as const }, "1"],
  [undefined, {}, ""],
])("%j with %j", (value, schema, text) => {
  expect(valueText(value, schema)).toBe(text);
});

test("without --human-readable values stay what they are", () => {
  expect(valueText(1536, { renderer: "bytes" }, false)).toBe("1536");
});
