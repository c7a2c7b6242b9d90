// The table of PVE's commands, with borders of ASCII or, where the locale is UTF-8, of lines.
import type { ShownSchema } from "./value-text.ts";
import { valueText } from "./value-text.ts";

export interface TextTableStyle {
  readonly border: boolean;
  readonly header: boolean;
  readonly utf8: boolean;
  readonly humanReadable: boolean;
  /** Width of the terminal, when there is one. */
  readonly columns: number | undefined;
  /** The column to sort by; false: as it came. The first one otherwise. */
  readonly sortKey?: string | false;
}

export type TableRow = Readonly<Record<string, unknown>>;

const lines = {
  ascii: { wall: "|", top: "+-++", head: "+=++", middle: "+-++", bottom: "+-++" },
  utf8: { wall: "│", top: "┌─┬┐", head: "╞═╪╡", middle: "├─┼┤", bottom: "└─┴┘" },
};

export function textTable(
  rows: readonly TableRow[],
  schemas: Readonly<Record<string, ShownSchema>>,
  names: readonly string[],
  style: TextTableStyle,
): readonly string[] {
  const sorted = sortRows(rows, schemas, style.sortKey ?? names[0]);
  const cells = sorted.map((row) =>
    names.map((name) => valueText(row[name], schemas[name], style.humanReadable).split("\n")),
  );
  const widths = names.map((name, at) => {
    const longest = Math.max(
      name.length,
      ...cells.flatMap((row) => (row[at] ?? []).map((line) => line.length)),
    );
    return Math.min(schemas[name]?.maxLength ?? longest, longest);
  });
  const isNumber = names.map((name) => isNumeric(schemas[name]));
  const draw = lines[style.utf8 ? "utf8" : "ascii"];
  const textOf = (parts: readonly string[]): string => {
    const padded = parts.map((part, at) => {
      const isLast = at === parts.length - 1;
      // Without borders the last column is neither filled nor cut.
      if (!style.border && isLast) return part;
      const width = widths[at] ?? 0;
      const cut = part.slice(0, width);
      return isNumber[at] === true ? cut.padStart(width) : cut.padEnd(width);
    });
    return style.border ? `${draw.wall} ${padded.join(` ${draw.wall} `)} ${draw.wall}` : padded.join(" ");
  };
  const rule = ([first = "", dash = "", cross = "", last = ""]: string): string =>
    `${first}${widths.map((width) => dash.repeat(width + 2)).join(cross)}${last}`;
  const body = cells.flatMap((row, at) => {
    const height = Math.max(...row.map((cell) => cell.length));
    const texts = Array.from({ length: height }, (_, line) => textOf(row.map((cell) => cell[line] ?? "")));
    const isRuled = style.border && (at > 0 || style.header);
    return isRuled ? [rule(at === 0 ? draw.head : draw.middle), ...texts] : texts;
  });
  const all = [
    ...(style.border ? [rule(draw.top)] : []),
    ...(style.header ? [textOf(names)] : []),
    ...body,
    ...(style.border ? [rule(draw.bottom)] : []),
  ];
  return style.columns === undefined ? all : all.map((line) => line.slice(0, style.columns));
}

function isNumeric(schema: ShownSchema | undefined): boolean {
  return schema?.type === "integer" || schema?.type === "number";
}

function sortRows(
  rows: readonly TableRow[],
  schemas: Readonly<Record<string, ShownSchema>>,
  key: string | false | undefined,
): readonly TableRow[] {
  if (key === undefined || key === false) return rows;
  const isNumber = isNumeric(schemas[key]);
  return rows.toSorted((one, other) => {
    if (isNumber) return Number(one[key] ?? 0) - Number(other[key] ?? 0);
    const [left, right] = [valueText(one[key]), valueText(other[key])];
    return left < right ? -1 : left > right ? 1 : 0;
  });
}
