// Nodes and requests for tests, and arbitrary ones for properties.
import fc from "fast-check";
import type { PlacementRequest, SchedulerNode, SchedulingRules } from "../model.ts";
import { STRATEGIES } from "../model.ts";

export const GiB = 1024 ** 3;

export function aNode(name: string, more: Partial<SchedulerNode> = {}): SchedulerNode {
  return {
    name,
    unschedulable: false,
    labels: {},
    taints: [],
    allocatable: { cpu: 8, memory: 16 * GiB },
    cpus: 8,
    gpus: [],
    storages: { local: { availBytes: 100 * GiB, content: ["images", "rootdir"] } },
    bridges: ["vmbr0"],
    numa: [],
    ...more,
  };
}

export function aRequest(
  id: string,
  rules: SchedulingRules = {},
  more: Partial<PlacementRequest> = {},
): PlacementRequest {
  return { id, kind: "vm", demand: { cpu: 1, memory: GiB }, needs: {}, labels: {}, rules, ...more };
}

const values = ["a", "b", "c"];

export const anyNodes: fc.Arbitrary<readonly SchedulerNode[]> = fc
  .array(
    fc.record({
      cpu: fc.integer({ min: 1, max: 16 }),
      memory: fc.integer({ min: 1, max: 64 }),
      zone: fc.option(fc.constantFrom(...values), { nil: undefined }),
      rack: fc.option(fc.constantFrom(...values), { nil: undefined }),
      disk: fc.constantFrom("ssd", "hdd"),
      taint: fc.option(fc.constantFrom("NoSchedule" as const, "PreferNoSchedule" as const), {
        nil: undefined,
      }),
      gpus: fc.integer({ min: 0, max: 2 }),
      unschedulable: fc.integer({ min: 0, max: 9 }).map((draw) => draw === 0),
    }),
    { minLength: 1, maxLength: 12 },
  )
  .map((rows) =>
    rows.map((row, at) =>
      aNode(`n${at}`, {
        allocatable: { cpu: row.cpu, memory: row.memory * GiB },
        cpus: row.cpu,
        unschedulable: row.unschedulable,
        labels: {
          disk: row.disk,
          ...(row.zone === undefined ? {} : { "topology.gpve.io/zone": row.zone }),
          ...(row.rack === undefined ? {} : { "topology.gpve.io/rack": row.rack }),
        },
        taints: row.taint === undefined ? [] : [{ key: "special", effect: row.taint }],
        gpus: Array.from({ length: row.gpus }, () => "NVIDIA A100"),
      }),
    ),
  );

const app = fc.constantFrom(...values).map((value) => `app=${value}`);
const key = fc.constantFrom("gpve.io/hostname", "topology.gpve.io/zone");
const term = fc.record({ guests: app, topologyKey: key });
const some = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined, freq: 2 });

const anyRules = fc
  .record({
    strategy: some(fc.constantFrom(...STRATEGIES)),
    nodeAffinity: some(fc.record({ required: fc.constant(["disk=ssd"]) })),
    affinity: some(
      fc.record({
        preferred: fc.array(fc.record({ guests: app, topologyKey: key, weight: fc.constant(5) }), {
          maxLength: 1,
        }),
      }),
    ),
    antiAffinity: some(fc.record({ required: fc.array(term, { maxLength: 1 }) })),
    tolerations: some(fc.constant([{ key: "special" }])),
    spread: some(
      fc.array(fc.record({ guests: app, topologyKey: key, maxSkew: fc.integer({ min: 1, max: 2 }) }), {
        maxLength: 1,
      }),
    ),
    maxHops: some(fc.integer({ min: 0, max: 2 })),
    near: fc.constant("app=a"),
  })
  .map((rules) => JSON.parse(JSON.stringify(rules)) as SchedulingRules);

export const anyRequests: fc.Arbitrary<readonly PlacementRequest[]> = fc
  .array(
    fc.record({
      cpu: fc.integer({ min: 1, max: 4 }),
      memory: fc.integer({ min: 1, max: 8 }),
      gpus: fc.integer({ min: 0, max: 5 }).map((draw) => (draw === 5 ? 1 : 0)),
      app: fc.constantFrom(...values),
      rules: anyRules,
    }),
    { maxLength: 30 },
  )
  .map((rows) =>
    rows.map(({ cpu, memory, gpus, app: value, rules }, at) =>
      aRequest(`vm/${100 + at}`, rules, {
        demand: { cpu, memory: memory * GiB, ...(gpus === 0 ? {} : { gpus }) },
        labels: { app: value },
      }),
    ),
  );
