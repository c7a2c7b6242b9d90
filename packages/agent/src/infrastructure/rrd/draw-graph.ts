// Statistics as pictures, in the size of PVE's: a line for each figure, a scale beside it, hours or days below.
import { refused } from "@gpve/domain/request/failures.ts";
import type { StatisticsGraph } from "@gpve/domain/node/statistics.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import { Canvas, textWidth, type Colour } from "./canvas.ts";

const WIDTH = 800;
const HEIGHT = 200;
const LEFT = 66;
const TOP = 26;
const PLOT_WIDTH = 718;
const PLOT_HEIGHT = 126;
const PAPER: Colour = [243, 243, 243];
const PLOT: Colour = [255, 255, 255];
const INK: Colour = [60, 60, 60];
const GRID: Colour = [222, 222, 222];
const LINES: readonly Colour[] = [
  [0, 170, 210],
  [220, 30, 30],
  [40, 150, 40],
  [150, 80, 190],
  [230, 140, 20],
  [90, 90, 90],
];
/** Kept as shares of one, shown in percent. */
const RATIOS = new Set(["cpu", "iowait"]);
const GRID_ROWS = 4;
const GRID_COLUMNS = 6;
const DAY_SECONDS = 86_400;

type Point = readonly [x: number, y: number] | undefined;

/** Throws PVE's text on a figure that the archive does not have. */
export function drawGraph(graph: StatisticsGraph): Buffer {
  const { rows, title } = graph;
  const names = figuresOf(graph);
  const canvas = new Canvas(WIDTH, HEIGHT, PAPER);
  const value = (row: Readonly<Record<string, number>>, name: string): number | undefined => {
    const found = row[name];
    return found === undefined || !RATIOS.has(name) ? found : found * 100;
  };
  const all = names.flatMap((name) => rows.flatMap((row) => value(row, name) ?? []));
  const top = niceTop(all.reduce((most, each) => Math.max(most, each), 0));
  canvas.text(LEFT, 8, title, INK);
  canvas.box(LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT, PLOT);
  drawScale(canvas, top, names.every((name) => RATIOS.has(name)) ? "%" : "");
  drawTimes(
    canvas,
    rows.flatMap((row) => row["time"] ?? []),
  );
  for (const [index, name] of names.entries()) {
    const colour = LINES[index % LINES.length] ?? INK;
    const points = rows.map((row, at): Point => {
      const found = value(row, name);
      if (found === undefined) return undefined;
      const x = LEFT + Math.round((at / Math.max(rows.length - 1, 1)) * PLOT_WIDTH);
      return [x, TOP + PLOT_HEIGHT - 1 - Math.round((found / top) * (PLOT_HEIGHT - 2))];
    });
    trace(canvas, points, colour);
  }
  drawLegend(canvas, names);
  return canvas.png();
}

/** The names asked for, each once. */
function figuresOf({ ds, sources, name }: StatisticsGraph): readonly string[] {
  const wanted = [...new Set(splitList(ds))];
  const unknown = wanted.find((each) => !sources.includes(each));
  if (unknown === undefined) return wanted;
  throw refused(`RRD error: No DS called '${unknown}' in '${name}'\n`);
}

function drawScale(canvas: Canvas, top: number, unit: string): void {
  for (let row = 0; row <= GRID_ROWS; row++) {
    const y = TOP + Math.round((PLOT_HEIGHT * row) / GRID_ROWS);
    const label = short((top * (GRID_ROWS - row)) / GRID_ROWS) + unit;
    canvas.line([LEFT, y], [LEFT + PLOT_WIDTH, y], GRID);
    canvas.text(LEFT - 8 - textWidth(label), y - 5, label, INK);
  }
  canvas.line([LEFT, TOP], [LEFT, TOP + PLOT_HEIGHT], INK);
  canvas.line([LEFT, TOP + PLOT_HEIGHT], [LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT], INK);
}

/** Clock times within two days, dates beyond. */
function drawTimes(canvas: Canvas, times: readonly number[]): void {
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  if (last <= first) return;
  const isShort = last - first <= 2 * DAY_SECONDS;
  for (let column = 0; column <= GRID_COLUMNS; column++) {
    const x = LEFT + Math.round((PLOT_WIDTH * column) / GRID_COLUMNS);
    const at = new Date((first + ((last - first) * column) / GRID_COLUMNS) * 1000);
    const label = isShort
      ? `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}`
      : `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())}`;
    if (column > 0) canvas.line([x, TOP], [x, TOP + PLOT_HEIGHT - 1], GRID);
    const start = Math.min(x - Math.round(textWidth(label) / 2), WIDTH - 4 - textWidth(label));
    canvas.text(start, TOP + PLOT_HEIGHT + 7, label, INK);
  }
}

function drawLegend(canvas: Canvas, names: readonly string[]): void {
  let x = LEFT;
  for (const [index, name] of names.entries()) {
    canvas.box(x, HEIGHT - 17, 14, 8, LINES[index % LINES.length] ?? INK);
    canvas.text(x + 20, HEIGHT - 18, name, INK);
    x += 20 + textWidth(name) + 24;
  }
}

/** A gap in the figures is a gap in the line. */
function trace(canvas: Canvas, points: readonly Point[], colour: Colour): void {
  for (const [index, point] of points.entries()) {
    if (point === undefined) continue;
    const before = index === 0 ? undefined : points[index - 1];
    canvas.line(before ?? point, point, colour, 2);
  }
}

/** 1, 2 or 5 times a power of ten, not below the greatest value. */
function niceTop(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  const factor = [1, 2, 5, 10].find((each) => each * power >= most) ?? 10;
  return factor * power;
}

function short(value: number): string {
  for (const [unit, size] of [
    ["t", 1e12],
    ["g", 1e9],
    ["m", 1e6],
    ["k", 1e3],
  ] as const) {
    if (value >= size) return `${Number((value / size).toFixed(1))}${unit}`;
  }
  return String(Number(value.toPrecision(2)));
}

function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}
