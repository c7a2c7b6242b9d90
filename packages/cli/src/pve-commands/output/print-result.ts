// An answer of the API in the formats of PVE's commands.
import { stringify } from "yaml";
import { isObject } from "@gpve/client/response-error.ts";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import { schemaOfKey } from "@gpve/domain/schema/properties.ts";
import type { CliIo } from "../../io.ts";
import type { OptionValues } from "../command-entry.ts";
import { outputOptions } from "../command-shape.ts";
import { compactJson, prettyJson } from "./perl-json.ts";
import { textTable, type TableRow, type TextTableStyle } from "./text-table.ts";
import { valueText } from "./value-text.ts";

export interface OutputStyle extends TextTableStyle {
  readonly format: string;
  readonly quiet: boolean;
}

/** Takes the output options out of the values. */
export function outputStyle(values: OptionValues, io: CliIo): { style: OutputStyle; rest: OptionValues } {
  const { env, stdout } = io;
  const locale = env["LC_ALL"] || env["LC_CTYPE"] || env["LANG"] || "";
  const style: OutputStyle = {
    format: String(values["output-format"] ?? "text"),
    quiet: values["quiet"] === "1",
    border: values["noborder"] !== "1",
    header: values["noheader"] !== "1",
    humanReadable: values["human-readable"] !== "0",
    utf8: /utf-?8/i.test(locale),
    columns: stdout.columns,
  };
  const own = Object.entries(values).filter(([name]) => !Object.hasOwn(outputOptions, name));
  return { style, rest: Object.fromEntries(own) };
}

/** `columns`: those to show, where not all of the schema's are. */
export function printResult(
  data: unknown,
  returns: PveSchema,
  style: OutputStyle,
  line: (text: string) => void,
  columns?: readonly string[],
): void {
  if (style.quiet || returns.type === "null") return;
  switch (style.format) {
    case "json":
      line(compactJson(data));
      return;
    case "json-pretty":
      line(prettyJson(data));
      return;
    case "yaml":
      line(`---\n${stringify(data ?? null).trimEnd()}`);
      return;
    default:
      for (const text of textOf(data, returns, style, columns)) line(text);
  }
}

function textOf(
  data: unknown,
  returns: PveSchema,
  style: OutputStyle,
  columns?: readonly string[],
): readonly string[] {
  if (Array.isArray(data)) return listText(data, returns, style, columns);
  if (!isObject(data)) return [valueText(data)];
  const properties = returns.properties ?? {};
  const keys =
    Object.keys(properties).length > 0 ? knownKeys(data, properties) : Object.keys(data).toSorted();
  const rows = (columns ?? keys)
    .filter((key) => data[key] !== undefined && data[key] !== null)
    .map((key) => ({ key, value: valueText(data[key], schemaOfKey(properties, key), style.humanReadable) }));
  return textTable(rows, {}, ["key", "value"], style);
}

function listText(
  data: readonly unknown[],
  returns: PveSchema,
  style: OutputStyle,
  columns?: readonly string[],
): readonly string[] {
  if (data.length === 0) return [];
  const isRows = returns.items?.type === "object" || data.every(isObject);
  if (!isRows) {
    const values = data.map((value) => ({ value }));
    return textTable(values, { value: returns.items ?? {} }, ["value"], { ...style, header: false });
  }
  const rows = data as readonly TableRow[];
  const properties = returns.items?.properties ?? {};
  const known = byNeed(Object.keys(properties), properties);
  const met = [...new Set(rows.flatMap((row) => Object.keys(row)))].toSorted();
  const names = columns ?? (known.length > 0 ? known : met);
  return textTable(rows, properties, names, style);
}

/** What the schema knows of an object's keys (`net0` as `net[n]`), needed ones first. */
function knownKeys(
  data: Readonly<Record<string, unknown>>,
  properties: Readonly<Record<string, PveSchema>>,
): readonly string[] {
  return byNeed(
    Object.keys(data).filter((key) => schemaOfKey(properties, key) !== undefined),
    properties,
  );
}

function byNeed(keys: readonly string[], properties: Readonly<Record<string, PveSchema>>): readonly string[] {
  const isOptional = (key: string): boolean =>
    (properties[key] ?? schemaOfKey(properties, key))?.optional === true;
  const sorted = keys.toSorted();
  return [...sorted.filter((key) => !isOptional(key)), ...sorted.filter(isOptional)];
}
