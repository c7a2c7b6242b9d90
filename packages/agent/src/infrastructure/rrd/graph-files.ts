// Statistics as pictures: PVE draws them into a file of the node and answers with its name.
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { StatisticsGraph, StatisticsGraphs } from "@gpve/domain/node/statistics.ts";
import { Canvas, type Colour } from "./canvas.ts";

const WIDTH = 850;
const HEIGHT = 220;
const LEFT = 80;
const TOP = 24;
const PLOT_WIDTH = 750;
const PLOT_HEIGHT = 150;
const PAPER: Colour = [243, 243, 243];
const INK: Colour = [60, 60, 60];
const GRID: Colour = [205, 205, 205];
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

type Point = readonly [x: number, y: number] | undefined;

export class GraphFiles implements StatisticsGraphs {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  draw(graph: StatisticsGraph): string {
    const base = join(this.#directory, graph.name);
    const wanted = [...new Set(splitList(graph.ds))];
    const unknown = wanted.find((name) => !graph.sources.includes(name));
    if (unknown !== undefined) {
      throw new AppError("request.invalid", `RRD error: No DS called '${unknown}' in '${base}'\n`, {
        pveStatus: 500,
      });
    }
    const file = `${base}_${wanted.join("_")}.png`;
    mkdirSync(dirname(file), { recursive: true });
    writeFileAtomic(file, drawn(graph, wanted), 0o644);
    return file;
  }
}

function drawn({ rows, title }: StatisticsGraph, names: readonly string[]): Buffer {
  const canvas = new Canvas(WIDTH, HEIGHT, PAPER);
  const value = (row: Readonly<Record<string, number>>, name: string): number | undefined => {
    const found = row[name];
    return found === undefined || !RATIOS.has(name) ? found : found * 100;
  };
  const all = names.flatMap((name) => rows.flatMap((row) => value(row, name) ?? []));
  const top = niceTop(all.reduce((most, each) => Math.max(most, each), 0));
  canvas.text(LEFT, 6, title, INK);
  frame(canvas, top, names.every((name) => RATIOS.has(name)) ? "%" : "");
  for (const [index, name] of names.entries()) {
    const colour = LINES[index % LINES.length] ?? INK;
    const points = rows.map((row, at): Point => {
      const found = value(row, name);
      if (found === undefined) return undefined;
      const x = LEFT + Math.round((at / Math.max(rows.length - 1, 1)) * PLOT_WIDTH);
      return [x, TOP + PLOT_HEIGHT - Math.round((found / top) * PLOT_HEIGHT)];
    });
    trace(canvas, points, colour);
    const x = LEFT + index * 125;
    canvas.line([x, HEIGHT - 18], [x + 14, HEIGHT - 18], colour, 4);
    canvas.text(x + 20, HEIGHT - 21, name, INK);
  }
  return canvas.png();
}

function frame(canvas: Canvas, top: number, unit: string): void {
  for (let row = 0; row <= GRID_ROWS; row++) {
    const y = TOP + Math.round((PLOT_HEIGHT * row) / GRID_ROWS);
    canvas.line([LEFT, y], [LEFT + PLOT_WIDTH, y], GRID);
    canvas.text(6, y - 5, short((top * (GRID_ROWS - row)) / GRID_ROWS) + unit, INK);
  }
  canvas.line([LEFT, TOP], [LEFT, TOP + PLOT_HEIGHT], INK);
  canvas.line([LEFT, TOP + PLOT_HEIGHT], [LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT], INK);
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
