// New clusters on the nodes of a cluster that has guests: by the scheduler, one transaction each.
import { afterEach, beforeEach, expect, test } from "vitest";
import { silentLogger } from "@gpve/kit/logger.ts";
import { nodesOf, vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { joinedNode } from "../../../testing/joined-node.ts";
import { nodeRecords } from "../../node/collections.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { distantStore } from "../../../testing/quota-world.ts";
import { SchedulerWorld } from "../../../testing/scheduler-world.ts";
import { DEFAULT_REBALANCE } from "../../scheduler/rebalancer.ts";
import { clusterDecisionsDef, writeDecisions } from "./cluster-decisions.ts";
import { placeNew } from "./place-new.ts";

const { signal } = new AbortController();

let world: SchedulerWorld;
beforeEach(async () => {
  world = await SchedulerWorld.with(["n1", "n2"]);
});
afterEach(() => world.stop());

/** As a server writes it. */
async function create(
  name: string,
  spec: object = {},
  at: SchedulerWorld = world,
  untoldMs = 0,
): Promise<readonly string[]> {
  const { records, board, clock, scheduler } = at;
  const cluster = { name, tenant: "shop", spec: readVirtualClusterSpec(spec as Record<string, unknown>) };
  const record = await placeNew({ records, board, clock, placer: scheduler.placer, untoldMs }, cluster, {
    ctx: { signal, actor: undefined },
    allow: () => undefined,
    write: (tx, { decisions, ...places }) => {
      const made = { ...cluster, ...places, madeBy: "r" };
      tx.put(vclusterCollection, name, made);
      writeDecisions(tx, name, decisions);
      return made;
    },
  });
  return nodesOf(record);
}

const workers = (count: number, more: object = {}) => ({
  workerNodes: { count, resources: { cpu: 1, memory: "1Gi" } },
  ...more,
});
const used = (node: string): number => {
  const state = world.scheduler.view.state();
  return state.cpuUsed[state.indexOf(node) ?? -1] ?? 0;
};
const decisions = (name: string) => world.records.collection(clusterDecisionsDef).get(name)?.value.parts;

test("are spread over nodes that are equal, and where fewer guests are when they are not", async () => {
  const homes = [];
  for (const name of ["a", "b", "c", "d"]) homes.push(...(await create(name)));
  expect(homes.toSorted()).toEqual(["n1", "n1", "n2", "n2"]);
  await world.guest(100, "n1", "cores: 3\nmemory: 6144\n");
  expect(await create("e", workers(1))).toEqual(["n2"]);
});

test("go by the strategy of server.yaml, where they have none of their own", async () => {
  world.stop();
  const plugins = { filter: [], score: [] };
  const own = { plugins, expressions: [], extenders: [], rebalance: DEFAULT_REBALANCE };
  const config = { ...own, defaultStrategy: "utilization" };
  world = await SchedulerWorld.with(["n1", "n2"], { config });
  const homes = [];
  for (const name of ["a", "b", "c"]) homes.push(...(await create(name, workers(1))));
  expect(new Set(homes).size).toBe(1);
});

test("have a decision that says what each node had and lacked, unless their node was named", async () => {
  await world.node("n1", { taints: ["dedicated=db"] });
  expect(await create("a", workers(1))).toEqual(["n2"]);
  expect(decisions("a")).toMatchObject([
    {
      part: "control-plane",
      node: "n2",
      lost: 0,
      explanation: {
        strategy: "balanced",
        verdicts: [
          { node: "n2", parts: { ClusterSpread: 100 } },
          { node: "n1", refusals: [{ filter: "TaintToleration" }] },
        ],
      },
    },
  ]);
  expect(await create("b", { ...workers(6), node: "n1" })).toEqual(["n1"]);
  expect(decisions("b")).toBeUndefined();
});

test("are refused with the reasons where what is there leaves too little, and take nothing", async () => {
  await create("a", workers(3));
  await create("b", workers(3));
  await expect(create("c", workers(2))).rejects.toThrow(
    "no node can have the virtual cluster: 0 of 2 nodes can take it: 2 by NodeResourcesFit. A node that is named (spec.node, gpvectl: --node)",
  );
  expect([used("n1"), used("n2"), decisions("c")]).toEqual([3, 3, undefined]);
});

test("that deal out their workers have as many nodes as have room for their share", async () => {
  const wide = { scheduling: { spread: true } };
  await world.node("n3");
  expect(new Set(await create("a", workers(3, wide))).size).toBe(3);
  expect(decisions("a")?.map(({ part }) => part)).toEqual(["control-plane", "workers-2", "workers-3"]);
  // 3 of 4 CPUs are left of each: two, two and one are on all of them.
  expect((await create("b", workers(5, wide))).length).toBe(3);
  expect(["n1", "n2", "n3"].map(used).toSorted((a, b) => a - b)).toEqual([2, 3, 3]);
  // Of 12 CPUs 8 are taken.
  await expect(create("c", workers(6, wide))).rejects.toThrow("by NodeResourcesFit");
  expect((await create("d", workers(4, wide))).length).toBe(3);
  expect(["n1", "n2", "n3"].map(used)).toEqual([4, 4, 4]);
});

test("wait for nodes that have just come, which are online before they say what they have", async () => {
  await world.records.transact((tx) => tx.put(nodeRecords, "n3", joinedNode("n3")));
  world.board.heartbeat("n3");
  const wide = workers(3, { scheduling: { spread: true } });
  expect(await create("a", wide)).toHaveLength(2);
  const made = create("b", wide, world, 10_000);
  await world.clock.advance(1_000);
  world.report("n3", []);
  await world.clock.advance(1_000);
  expect(await made).toHaveLength(3);
  // Who says nothing is waited for as long, and no longer.
  await world.records.transact((tx) => tx.put(nodeRecords, "n4", joinedNode("n4")));
  world.board.heartbeat("n4");
  const late = create("c", {}, world, 10_000);
  for (let at = 0; at < 12; at++) await world.clock.advance(1_000);
  expect(await late).toHaveLength(1);
});

test("made at once by one server all find their place, however many there are", async () => {
  const names = Array.from({ length: 60 }, (_none, at) => `c${at}`);
  await Promise.all(names.map((name) => create(name)));
  const all = world.records.collection(vclusterCollection).list();
  expect(all.filter(({ value }) => value.node === "n1")).toHaveLength(30);
});

test("made at once by two servers never have the same room: who was slower looks again", async () => {
  const store = distantStore(openSqliteStore({ path: ":memory:" }));
  const open = () => openRecords(store, { prefix: "/gpve/", log: silentLogger });
  const [records, others] = [await open(), await open()];
  world.stop();
  world = await SchedulerWorld.with(["n1"], { records });
  const other = await SchedulerWorld.with(["n1"], { records: others });
  const made = await Promise.allSettled(
    [0, 1, 2, 3, 4, 5].map((at) => create(`c${at}`, workers(1), at % 2 === 0 ? world : other)),
  );
  expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(4);
  await records.fresh();
  expect(used("n1")).toBe(4);
  const lost = records
    .collection(clusterDecisionsDef)
    .list()
    .flatMap(({ value }) => value.parts.map((part) => part.lost));
  expect(Math.max(...lost)).toBeGreaterThan(0);
  other.stop();
  await Promise.all([records.close(), others.close()]);
  await store.close();
});
