// Our own table printer: columns as wide as their widest cell, cut to the terminal where there is one.
import { type Colours, paintState } from "./colour.ts";
import { type CellFormat, cellText } from "./cell.ts";
import { displayWidth, fit } from "./display-width.ts";

export interface TableColumn {
  readonly header: string;
  /** A key of the row, or a path into it: "status.usage.cpu". */
  readonly field: string;
  readonly format?: CellFormat;
  /** The cell is `field` divided by this field: how much of it is used. */
  readonly of?: string;
  /** Never cut: where there is no room it stands below its row. */
  readonly whole?: boolean;
  /** Only with --output wide. */
  readonly wide?: boolean;
}

export interface TableStyle {
  readonly colours: Colours;
  /** Terminal width; undefined = never cut. */
  readonly width: number | undefined;
  readonly nowMs: number;
  /** Widths of the rows before; kept up to date, so that rows printed one by one line up. */
  readonly memory?: number[];
}

const GAP = "  ";
const MIN_WIDTH = 8;

export function renderTable(
  rows: readonly unknown[],
  columns: readonly TableColumn[],
  style: TableStyle,
): string {
  const texts = rows.map((row) =>
    columns.map((column) => cellText(valueOf(row, column), column.format ?? "text", style.nowMs)),
  );
  const natural = columns.map((column, at) =>
    Math.max(
      displayWidth(column.header),
      style.memory?.[at] ?? 0,
      ...texts.map((cells) => displayWidth(cells[at] ?? "")),
    ),
  );
  style.memory?.splice(0, natural.length, ...natural);
  const below = columns.findIndex(({ whole }) => whole === true);
  if (below >= 0 && style.width !== undefined && widthOf(natural) > style.width) {
    const [head = "", ...body] = renderTable(rows, columns.toSpliced(below, 1), style).split("\n");
    const told = body
      .slice(0, rows.length)
      .flatMap((line, at) => [line, `${GAP}${texts[at]?.[below] ?? ""}`]);
    return `${[head, ...told].join("\n")}\n`;
  }
  const widths = shrink(natural, columns, style.width);
  const right = columns.map((column) => rightAligned(column.format));
  const line = (cells: readonly string[], paint: (text: string, at: number) => string): string =>
    cells
      .map((cell, at) => {
        const width = widths[at] ?? 0;
        const text = fit(cell, width);
        const padding = " ".repeat(Math.max(0, width - displayWidth(text)));
        const painted = paint(text, at);
        return right[at] === true ? padding + painted : painted + padding;
      })
      .join(GAP)
      .trimEnd();
  const head = line(
    columns.map((column) => column.header),
    (text) => style.colours.bold(text),
  );
  const body = texts.map((cells) =>
    line(cells, (text, at) => (columns[at]?.format === "state" ? paintState(style.colours, text) : text)),
  );
  return `${[head, ...body].join("\n")}\n`;
}

const widthOf = (widths: readonly number[]): number =>
  widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1));

/** Reads "a.b.c"; a key that itself has dots is found first. */
export function fieldOf(row: unknown, path: string): unknown {
  if (typeof row !== "object" || row === null) return undefined;
  const record = row as Readonly<Record<string, unknown>>;
  if (Object.hasOwn(record, path)) return record[path];
  const dot = path.indexOf(".");
  if (dot < 0 || !Object.hasOwn(record, path.slice(0, dot))) return undefined;
  return fieldOf(record[path.slice(0, dot)], path.slice(dot + 1));
}

function rightAligned(format: CellFormat | undefined): boolean {
  return format === "bytes" || format === "percent" || format === "duration" || format === "age";
}

function valueOf(row: unknown, column: TableColumn): unknown {
  const value = fieldOf(row, column.field);
  if (column.of === undefined) return value;
  const whole = Number(fieldOf(row, column.of));
  return typeof value === "number" && whole > 0 ? value / whole : undefined;
}

/** Takes what is missing from the widest columns of text, never below their header. Half a number is a wrong one. */
function shrink(
  natural: readonly number[],
  columns: readonly TableColumn[],
  limit: number | undefined,
): readonly number[] {
  const widths = [...natural];
  if (limit === undefined) return widths;
  const floor = columns.map((column, at) =>
    rightAligned(column.format) ? (natural[at] ?? 0) : Math.max(MIN_WIDTH, displayWidth(column.header)),
  );
  let excess = widthOf(widths) - limit;
  while (excess > 0) {
    let widest = -1;
    for (const [at, width] of widths.entries()) {
      if (width > (floor[at] ?? 0) && (widest < 0 || width > (widths[widest] ?? 0))) widest = at;
    }
    if (widest < 0) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess -= 1;
  }
  return widths;
}
