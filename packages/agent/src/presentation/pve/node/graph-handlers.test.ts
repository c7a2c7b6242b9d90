import { inflateSync } from "node:zlib";
import { expect, it } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { drawGraph } from "../../../infrastructure/rrd/draw-graph.ts";
import { createGraphHandlers } from "./graph-handlers.ts";

const ctx = {} as RequestContext;

interface Graph {
  readonly filename: string;
  readonly image: string;
}

let rows: Record<string, number>[] = [];
const handlers = createGraphHandlers({
  node: "n1",
  draw: drawGraph,
  data: {
    "GET /nodes/{node}/rrddata": () => rows,
    "GET /nodes/{node}/qemu/{vmid}/rrddata": async () => rows,
    "GET /nodes/{node}/storage/{storage}/rrddata": () => rows,
  },
  sources: { vm: ["cpu", "mem", "netin"], node: ["cpu", "loadavg"], storage: ["total", "used"] },
});

/** Width, height and how many pixels have the colour. */
function picture(image: string): {
  size: [number, number];
  count: (rgb: readonly number[]) => number;
  rowsOf: (rgb: readonly number[]) => number[];
} {
  const png = Buffer.from(image, "latin1");
  expect(png.subarray(1, 4).toString()).toBe("PNG");
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  const raw = inflateSync(png.subarray(41, 41 + png.readUInt32BE(33)));
  const at = (x: number, y: number): number[] => [
    ...raw.subarray(y * (width * 3 + 1) + 1 + x * 3).subarray(0, 3),
  ];
  const found = (rgb: readonly number[]): number[] => {
    const hits: number[] = [];
    // The plot alone, without the legend below it.
    for (let y = 0; y < 155; y++)
      for (let x = 0; x < width; x++) if (String(at(x, y)) === String(rgb)) hits.push(y);
    return hits;
  };
  return { size: [width, height], count: (rgb) => found(rgb).length, rowsOf: found };
}

const FIRST = [0, 170, 210];
const SECOND = [220, 30, 30];

it("draws the figures asked for, higher values higher", async () => {
  rows = Array.from({ length: 70 }, (_, time) => ({ time, cpu: time < 35 ? 0.1 : 0.9, mem: 5e9 }));
  const one = (await handlers["GET /nodes/{node}/qemu/{vmid}/rrd"]?.(
    { node: "n1", vmid: 100, timeframe: "hour", ds: "cpu" },
    ctx,
  )) as Graph;
  expect(one.filename).toBe("pve2-vm/100_cpu.png");
  const cpu = picture(one.image);
  expect(cpu.size).toEqual([800, 200]);
  expect(cpu.count(FIRST)).toBeGreaterThan(700);
  expect(cpu.count(SECOND)).toBe(0);
  const ys = cpu.rowsOf(FIRST);
  expect(Math.max(...ys) - Math.min(...ys)).toBeGreaterThan(90);
  const two = (await handlers["GET /nodes/{node}/rrd"]?.(
    { node: "n1", timeframe: "day", ds: "cpu,loadavg" },
    ctx,
  )) as Graph;
  expect(two.filename).toBe("pve2-node/n1_cpu_loadavg.png");
});

it("leaves gaps where nothing is known, and draws an empty frame without figures", async () => {
  rows = [{ time: 0, total: 10, used: 0 }, { time: 1 }, { time: 2, total: 10, used: 7 }];
  const one = (await handlers["GET /nodes/{node}/storage/{storage}/rrd"]?.(
    { node: "n1", storage: "local", timeframe: "hour", ds: "total,used" },
    ctx,
  )) as Graph;
  expect(one.filename).toBe("pve2-storage/n1/local_total_used.png");
  expect(picture(one.image).count(FIRST)).toBeLessThan(10);
  rows = [];
  const empty = (await handlers["GET /nodes/{node}/rrd"]?.(
    { node: "n1", timeframe: "hour", ds: "cpu" },
    ctx,
  )) as Graph;
  expect(picture(empty.image).count(FIRST)).toBe(0);
});

it("refuses a figure that is not kept", async () => {
  await expect(
    handlers["GET /nodes/{node}/rrd"]?.({ node: "n1", timeframe: "hour", ds: "weather" }, ctx),
  ).rejects.toThrow("RRD error: No DS called 'weather' in 'pve2-node/n1'");
});
