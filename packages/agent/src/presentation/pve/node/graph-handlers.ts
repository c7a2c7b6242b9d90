// The methods that draw statistics. What they draw is what the rrddata methods answer.
import type { DrawGraph, StatisticsGraph } from "@gpve/domain/node/statistics.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { splitList } from "@gpve/domain/schema/list.ts";

type Rows = readonly Readonly<Record<string, number>>[];

export interface GraphHandlerDeps {
  readonly node: string;
  readonly draw: DrawGraph;
  /** The handlers of rrddata. */
  readonly data: PveHandlers;
  readonly sources: Readonly<Record<"vm" | "node" | "storage", readonly string[]>>;
}

export function createGraphHandlers({ node, draw, data, sources }: GraphHandlerDeps): PveHandlers {
  /** As PVE answers: the picture's bytes one to a character, which /api2/png sends as they are, and a name for it. */
  const drawn = (graph: StatisticsGraph): { readonly filename: string; readonly image: string } => {
    const image = Buffer.from(draw(graph)).toString("latin1");
    return { filename: `${graph.name}_${[...new Set(splitList(graph.ds))].join("_")}.png`, image };
  };
  return {
    "GET /nodes/{node}/rrd": async ({ ds, ...params }, ctx) =>
      drawn({
        name: `pve2-node/${node}`,
        title: `node ${node} ${params.timeframe}`,
        ds,
        sources: sources.node,
        rows: (await data["GET /nodes/{node}/rrddata"]?.(params, ctx)) as Rows,
      }),
    "GET /nodes/{node}/qemu/{vmid}/rrd": async ({ ds, ...params }, ctx) =>
      drawn({
        name: `pve2-vm/${params.vmid}`,
        title: `vm ${params.vmid} ${params.timeframe}`,
        ds,
        sources: sources.vm,
        rows: (await data["GET /nodes/{node}/qemu/{vmid}/rrddata"]?.(params, ctx)) as Rows,
      }),
    "GET /nodes/{node}/storage/{storage}/rrd": async ({ ds, ...params }, ctx) =>
      drawn({
        name: `pve2-storage/${node}/${params.storage}`,
        title: `storage ${params.storage} ${params.timeframe}`,
        ds,
        sources: sources.storage,
        rows: (await data["GET /nodes/{node}/storage/{storage}/rrddata"]?.(params, ctx)) as Rows,
      }),
  };
}
