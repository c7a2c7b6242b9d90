// How good placements are, read from the result alone: which nodes are used and how evenly, and which rules do not hold.
import type { PlacementRequest, SchedulerNode } from "../../packages/domain/src/scheduler/model.ts";

export interface Quality {
  readonly placed: number;
  /** Guests for which a required rule does not hold, or that are on a node which others reserve. */
  readonly violations: number;
  /** Nodes with anything on them. */
  readonly nodesUsed: number;
  /** Standard deviation of how full nodes are, in percent of a node. */
  readonly deviation: number;
  /** Mean number of zones that an application of six is in. */
  readonly zonesPerApp: number;
  /** Mean hops from a guest to the others of its application. */
  readonly hops: number;
}

export type Placements = readonly { readonly request: PlacementRequest; readonly node: SchedulerNode }[];

export function qualityOf(nodes: readonly SchedulerNode[], placements: Placements): Quality {
  const used = new Map<string, { cpu: number; memory: number; gpus: number }>();
  const apps = new Map<string, SchedulerNode[]>();
  for (const { request, node } of placements) {
    const row = used.get(node.name) ?? { cpu: 0, memory: 0, gpus: 0 };
    row.cpu += request.demand.cpu;
    row.memory += request.demand.memory;
    row.gpus += request.demand.gpus ?? 0;
    used.set(node.name, row);
    const app = request.labels["app"] ?? "";
    apps.set(app, [...(apps.get(app) ?? []), node]);
  }
  const loads = nodes.map(({ name, allocatable }) => {
    const row = used.get(name) ?? { cpu: 0, memory: 0 };
    return Math.max(row.cpu / allocatable.cpu, row.memory / allocatable.memory);
  });
  const zones = [...apps.values()].map(
    (on) => new Set(on.map((node) => node.labels["topology.gpve.io/zone"])).size,
  );
  return {
    placed: placements.length,
    violations: placements.filter((each) => isBroken(each, apps, used)).length,
    nodesUsed: used.size,
    deviation: 100 * deviation(loads),
    zonesPerApp: mean(zones),
    hops: mean([...apps.values()].flatMap(hopsWithin)),
  };
}

function isBroken(
  { request, node }: Placements[number],
  apps: ReadonlyMap<string, readonly SchedulerNode[]>,
  used: ReadonlyMap<string, { readonly gpus: number }>,
): boolean {
  const { rules, labels, demand } = request;
  const mates = apps.get(labels["app"] ?? "")?.filter(({ name }) => name === node.name).length ?? 0;
  const isReserved = node.taints.length > 0 && rules.tolerations === undefined;
  const isWrongDisk = rules.nodeAffinity !== undefined && node.labels["disk"] !== "ssd";
  const lacksGpu = (demand.gpus ?? 0) > 0 && (used.get(node.name)?.gpus ?? 0) > node.gpus.length;
  return isReserved || isWrongDisk || lacksGpu || (rules.antiAffinity !== undefined && mates > 1);
}

function hopsWithin(nodes: readonly SchedulerNode[]): readonly number[] {
  return nodes.flatMap((a, at) => nodes.slice(at + 1).map((b) => hops(a, b)));
}

function hops(a: SchedulerNode, b: SchedulerNode): number {
  if (a.name === b.name) return 0;
  if (a.labels["topology.gpve.io/rack"] === b.labels["topology.gpve.io/rack"]) return 1;
  return a.labels["topology.gpve.io/zone"] === b.labels["topology.gpve.io/zone"] ? 2 : 3;
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function deviation(values: readonly number[]): number {
  const middle = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - middle) ** 2)));
}
