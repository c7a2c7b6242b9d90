// `npm run bench:scheduler`: decisions a second on 100, 1 000 and 5 000 nodes by each strategy, and how good they are,
// beside best fit in the same run. A decision is filter, score, select and the place taken in the state.
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ClusterState } from "../../packages/domain/src/scheduler/cluster-state.ts";
import { decidePlacement } from "../../packages/domain/src/scheduler/decide.ts";
import { explain } from "../../packages/domain/src/scheduler/explain.ts";
import {
  STRATEGIES,
  type PlacementRequest,
  type SchedulerNode,
} from "../../packages/domain/src/scheduler/model.ts";
import { readPolicy } from "../../packages/domain/src/scheduler/policy.ts";
import { root } from "../../test/support/gpve.ts";
import { BestFit } from "./baseline.ts";
import { qualityOf, type Placements, type Quality } from "./quality.ts";
import { clusterOf, requestsOf } from "./workload.ts";

const { values: options } = parseArgs({
  options: {
    guests: { type: "string", default: "10000" },
    out: { type: "string", default: join(root, "bench/results") },
  },
});

interface Row extends Quality {
  readonly nodes: number;
  readonly strategy: string;
  readonly perSecond: number;
  /** By the processor's time: what others on the machine do does not count. */
  readonly perCpuSecond: number;
  readonly p99Us: number;
}

const policy = readPolicy();
const WARM_UP = 500;

function measured(
  nodes: readonly SchedulerNode[],
  requests: readonly PlacementRequest[],
  strategy: string,
  place: (request: PlacementRequest) => string | undefined,
): Row {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const placements: Placements[number][] = [];
  const times = new Float64Array(requests.length);
  const before = process.cpuUsage();
  for (const [at, request] of requests.entries()) {
    const from = performance.now();
    const name = place(request);
    times[at] = performance.now() - from;
    const node = name === undefined ? undefined : byName.get(name);
    if (node !== undefined) placements.push({ request, node });
  }
  const cpu = process.cpuUsage(before);
  const seconds = times.reduce((sum, time) => sum + time, 0) / 1000;
  return {
    nodes: nodes.length,
    strategy,
    perSecond: requests.length / seconds,
    perCpuSecond: requests.length / ((cpu.user + cpu.system) / 1e6),
    p99Us: 1000 * (times.toSorted()[Math.floor(times.length * 0.99)] ?? 0),
    ...qualityOf(nodes, placements),
  };
}

function ours(nodes: readonly SchedulerNode[]): (request: PlacementRequest) => string | undefined {
  const state = new ClusterState(nodes);
  return (request) => {
    const { node } = decidePlacement(state, request, policy);
    if (node !== undefined) state.place({ request, node, counts: true });
    return node;
  };
}

function bestFit(nodes: readonly SchedulerNode[]): (request: PlacementRequest) => string | undefined {
  const state = new BestFit(nodes);
  return (request) => state.place(request);
}

const rows: Row[] = [];
const explained: { readonly nodes: number; readonly perSecond: number }[] = [];
for (const count of [100, 1_000, 5_000]) {
  const nodes = clusterOf(count);
  const guests = Math.min(Number(options.guests), count * 20);
  for (const strategy of STRATEGIES) {
    const requests = requestsOf(guests, strategy);
    requests.slice(0, WARM_UP).forEach(ours(nodes));
    rows.push(measured(nodes, requests, strategy, ours(nodes)));
    if (strategy === "balanced" || strategy === "gpu-aware")
      rows.push(
        measured(
          nodes,
          requests,
          strategy === "balanced" ? "best fit" : "best fit, with GPUs",
          bestFit(nodes),
        ),
      );
  }
  const state = new ClusterState(nodes);
  const requests = requestsOf(200, "balanced");
  const from = performance.now();
  for (const request of requests) explain(state, request, policy);
  explained.push({ nodes: count, perSecond: (1000 * requests.length) / (performance.now() - from) });
}

const number = (value: number, digits = 0): string => value.toFixed(digits);
const date = new Date().toISOString().slice(0, 10);
const table = [
  "| nodes | strategy | decisions/s | per CPU second | p99 | placed | rules broken | nodes used | deviation | zones per app | hops in app |",
  "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
  ...rows.map(
    (row) =>
      `| ${row.nodes} | ${row.strategy} | ${number(row.perSecond)} | ${number(row.perCpuSecond)} | ${number(row.p99Us)} us | ${row.placed} | ${row.violations} | ${row.nodesUsed} | ${number(row.deviation, 1)} % | ${number(row.zonesPerApp, 2)} | ${number(row.hops, 2)} |`,
  ),
];
const page = `Placing up to ${options.guests} guests, one after the other, on one core; ${date}, ${availableParallelism()} cores. A third of the
applications (of six guests each) must be apart, a fifth needs SSDs, every twentieth node is reserved by a taint, and for
gpu-aware a tenth of the guests needs a GPU. Best fit knows no rules: what it breaks is counted.

${table.join("\n")}

With all reasons for all nodes (\`explain\`): ${explained.map(({ nodes, perSecond }) => `${number(perSecond)}/s at ${nodes} nodes`).join(", ")}.
`;
mkdirSync(options.out, { recursive: true });
writeFileSync(
  join(options.out, "scheduler.json"),
  `${JSON.stringify({ date, rows, explained }, undefined, 2)}\n`,
);
writeFileSync(join(options.out, "scheduler.md"), page);
process.stdout.write(page);
