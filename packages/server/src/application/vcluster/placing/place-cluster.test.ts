// Which node gets a virtual cluster: one that takes new guests, and has room for it.
import { afterEach, describe, expect, test } from "vitest";
import type { AccessView } from "@gpve/domain/request/context.ts";
import type { Capability, NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { managerCollection, MANAGER_STATUS_ID } from "@gpve/domain/ha/collections.ts";
import { emptyManagerStatus } from "@gpve/domain/ha/model.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer } from "../../../testing/quota-world.ts";
import { nodeRecords } from "../../node/collections.ts";
import { boardPlacer } from "../../../testing/board-placer.ts";
import { joinedNode } from "../../../testing/joined-node.ts";
import { aNode, aRequest } from "@gpve/domain/scheduler/testing/placement-world.ts";
import { clusterFilters } from "./cluster-filters.ts";
import { requireRoomOn } from "./named-node.ts";
import { placeNew, type PlaceNewTerms, type PlacedNew } from "./place-new.ts";
import type { SeenFrom } from "./restored-place.ts";

const GIB = 2 ** 30;

const ctx = {
  signal: new AbortController().signal,
  actor: undefined,
  access: { has: () => true } as unknown as AccessView,
};

let closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  closing = [];
});

interface NodeGiven {
  readonly cordoned?: boolean;
  readonly taints?: readonly string[];
  readonly memoryGiB?: number;
  readonly availableGiB?: number;
  readonly capabilities?: readonly Capability[];
  readonly devices?: readonly { readonly kind: string; readonly count: number }[];
}

async function world(nodes: Readonly<Record<string, NodeGiven>>) {
  const clock = new FakeClock(1_000_000);
  const node = { node: "n1", call: () => Promise.reject(new Error("not asked")) };
  const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), {
    owner: "s1",
    clock,
    node,
  });
  closing.push(() => server.close());
  const { records } = server;
  await records.transact((tx) => {
    for (const [name, { cordoned, taints = [] }] of Object.entries(nodes))
      tx.put(
        nodeRecords,
        name,
        joinedNode(name, {
          certFingerprint: `AA:${name}`,
          taints,
          ...(cordoned === true ? { unschedulable: true as const } : {}),
        }),
      );
    // The first one has a cluster already: the others come first.
    tx.put(vclusterCollection, "old", {
      name: "old",
      tenant: "default",
      node: Object.keys(nodes)[0] ?? "",
      spec: readVirtualClusterSpec({}),
      madeBy: "r",
    });
  });
  const views = Object.entries(nodes).map(
    ([name, { memoryGiB = 16, availableGiB = 8, capabilities, devices }]) => ({
      node: name,
      address: "192.0.2.1",
      health: "online",
      facts: { cpu: { cpus: 4 }, memoryBytes: memoryGiB * GIB, gpus: [], capabilities, devices },
      report: { guests: [], storages: [], usage: { memory: { available: availableGiB * GIB } } },
    }),
  ) as unknown as NodeView[];
  const board = {
    list: () => views,
    get: (name: string) => views.find((each) => each.node === name),
  } as unknown as NodeBoard;
  const deps = { records, board, clock, placer: boardPlacer({ records, board }) };
  const wanted = (spec: object = {}) => readVirtualClusterSpec(spec as Record<string, unknown>);
  const placed = (spec: object = {}, more: Partial<PlaceNewTerms<PlacedNew>> = {}) =>
    placeNew<PlacedNew>(
      deps,
      { name: "demo", tenant: "default", spec: wanted(spec) },
      { ctx, allow: () => undefined, write: (_tx, places) => places, ...more },
    );
  const place = async (spec: object = {}, from?: SeenFrom): Promise<string> =>
    (await placed(spec, { from })).node;
  /** All that could have its control plane. */
  const fitting = async (spec: object = {}): Promise<readonly string[]> => {
    const { decisions } = await placed(spec);
    const { verdicts = [] } = decisions[0]?.explanation ?? {};
    return verdicts.flatMap(({ node: each, refusals }) => (refusals.length === 0 ? [each] : [])).toSorted();
  };
  return { deps, wanted, placed, place, fitting };
}

describe("a virtual cluster", () => {
  test("goes to no node in maintenance, unless it names that node", async () => {
    const { place, deps } = await world({ n1: {}, n2: {} });
    const status = { ...emptyManagerStatus(), maintenance: { n2: true as const } };
    await deps.records.transact((tx) => tx.put(managerCollection, MANAGER_STATUS_ID, status));
    expect(await place()).toBe("n1");
    expect(await place({ node: "n2" })).toBe("n2");
  });

  test("goes to no node that is cordoned or tainted, unless it names that node", async () => {
    const { place, fitting } = await world({
      n1: {},
      n2: { cordoned: true },
      n3: { taints: ["dedicated=db"] },
      n4: { taints: ["slow:PreferNoSchedule"] },
    });
    expect(await fitting()).toEqual(["n1", "n4"]);
    // One that is rather not used is used where there is no other, whatever the other has.
    expect(await place()).toBe("n1");
    expect(await place({ node: "n2" })).toBe("n2");
    expect(await place({ node: "n3" })).toBe("n3");
  });

  test("that is made of a backup goes to a node that sees it and is open, and has all its workers there", async () => {
    const { place } = await world({ n1: { cordoned: true }, n2: {}, n3: { memoryGiB: 4 } });
    const asked: string[] = [];
    const restored = (node: string, spec: object = {}, sees: readonly string[] = []) =>
      place(spec, {
        node,
        isNamed: false,
        seenBy: async (nodes) => {
          asked.push(...nodes);
          return nodes.find((each) => sees.includes(each));
        },
      });
    expect(await restored("n3")).toBe("n3");
    expect(asked).toEqual([]);
    expect(await restored("n1", {}, ["n1", "n3"])).toBe("n3");
    await expect(restored("n1", {}, ["n1"])).rejects.toThrow(
      "no node that sees the backup can have the virtual cluster: n1 cannot, and n2, n3 could, and cannot read",
    );
    const spread = { workerNodes: { count: 4, resources: { memory: "2Gi" } }, scheduling: { spread: true } };
    await expect(restored("n3", spread)).rejects.toThrow("n3 cannot, and n2 could");
    const large = { workerNodes: { count: 1, resources: { memory: "100Gi" } } };
    await expect(restored("n2", large)).rejects.toThrow("n2: 16 GiB of 100 GiB memory are free");
    const named = { isNamed: true, seenBy: async () => undefined };
    expect(await place({}, { node: "n1", ...named })).toBe("n1");
    await expect(place(spread, { node: "n3", ...named })).rejects.toThrow(
      "node n3 cannot have the virtual cluster: the workers may use 8 GiB",
    );
  });

  test("is refused with the reason of every node", async () => {
    const { place } = await world({
      n1: { cordoned: true },
      n2: { taints: ["dedicated=db"] },
      n3: { availableGiB: 0.125 },
    });
    await expect(place()).rejects.toThrow(
      "no node can have the virtual cluster: 0 of 3 nodes can take it: 1 by ControlPlaneRoom, 1 by NodeUnschedulable, 1 by TaintToleration. n1: it is cordoned: gpvectl node uncordon n1. n2: its taint dedicated=db:NoSchedule is not tolerated: add a toleration, or take the taint away. n3: 128 MiB of its memory are free, and a control plane takes 300 MiB",
    );
  });

  test("has no more memory for its workers than its node has for guests", async () => {
    const { place, deps, wanted, placed } = await world({
      small: { memoryGiB: 4 },
      large: { memoryGiB: 64 },
    });
    const workers = (count: number, memory: string, more: object = {}) => ({
      workerNodes: { count, resources: { memory } },
      ...more,
    });
    expect(await place(workers(2, "8Gi"))).toBe("large");
    await expect(place(workers(2, "8Gi", { node: "small" }))).rejects.toThrow(
      "node small cannot have the virtual cluster: the workers may use 16 GiB, and all guests of the node together 4 GiB",
    );
    await expect(place(workers(1, "100Gi"))).rejects.toThrow("large: 64 GiB of 100 GiB memory are free");
    // Dealt out, each node has its share.
    const dealt = await placed(workers(4, "1Gi", { scheduling: { spread: true } }));
    expect(dealt.spread?.nodes.map(({ node }) => node)).toEqual(["large", "small"]);
    const view = deps.board.get("small");
    expect(view === undefined ? "" : requireRoomOn(view, wanted(workers(1, "2Gi")))).toBe("small");
  });

  test("is refused a control plane that no node has, with the numbers", async () => {
    const { place, deps, wanted } = await world({ small: { memoryGiB: 4 }, large: { memoryGiB: 64 } });
    const asks = (resources: object, more: object = {}) => ({ controlPlane: { resources, ...more } });
    expect(await place(asks({ memory: "32Gi" }))).toBe("large");
    await expect(place(asks({ memory: "128Gi" }))).rejects.toThrow(
      "2 by ControlPlaneSize. large: its control plane asks for 128 GiB (spec.controlPlane.resources), and the node has 64 GiB. small: its control plane asks for 128 GiB",
    );
    await expect(place(asks({ cpu: 64 }))).rejects.toThrow(
      "small: its control plane asks for 64 CPUs (spec.controlPlane.resources), and the node has 4",
    );
    await expect(place({ ...asks({ memory: "8Gi" }), node: "small" })).rejects.toThrow(
      "node small cannot have the virtual cluster: its control plane asks for 8 GiB",
    );
    // What a tier has without being asked is a bound, and nothing that is set aside.
    expect(await place({ controlPlane: { tier: "Enterprise", replicas: 1 }, node: "small" })).toBe("small");
    expect(await place({ ...asks({ cpu: 2 }, { tier: "Enterprise", replicas: 1 }), node: "small" })).toBe(
      "small",
    );
    // One that is there is not left where it cannot be.
    const there = wanted(asks({ memory: "128Gi" }));
    const refusals = clusterFilters(deps, there).map(({ refuse }) =>
      refuse?.(aNode("small"), aRequest("vc/x"), { cpuUsed: 0, memoryUsed: 0, gpusUsed: 0, guests: 0 }),
    );
    expect(refusals.filter((why) => why !== undefined)).toEqual([]);
    await expect(place(asks({ memory: "32Gi" }, { tier: "Enterprise" }))).rejects.toThrow(
      "3 replicas are on as many nodes, and only these are online and fit: large; ask for 1 replica, or add nodes: 0 of 2 nodes can take it: 1 by ControlPlaneSize, 1 by OwnParts",
    );
  });

  test("whose workers have devices goes where they are", async () => {
    const gpus = (count: number) => [{ kind: "example.com/gpu", count }];
    const { place } = await world({ n1: { devices: gpus(2) }, n2: {}, n3: { devices: gpus(1) } });
    const devices = { "example.com/gpu": 1 };
    expect(await place({ workerNodes: { count: 2, devices } })).toBe("n1");
    await expect(place({ workerNodes: { count: 1, devices }, node: "n2" })).rejects.toThrow(
      "node n2 cannot have the virtual cluster: its workers would have 1 example.com/gpu, and the node offers 0",
    );
    await expect(place({ workerNodes: { count: 3, devices } })).rejects.toThrow(
      /n1: its workers would have 3 example.com\/gpu, and the node offers 2. n2: .* offers 0. n3: .* offers 1/,
    );
  });

  test("with pods that are machines goes where Kata is, else to who has not told yet and is asked", async () => {
    const kata = (available: boolean) => [{ name: "kata", available, detail: "no shim" }];
    const L2 = { isolationLevel: "L2" };
    const some = await world({ n1: { capabilities: kata(true) }, n2: {}, n3: { capabilities: kata(false) } });
    expect(await some.place(L2)).toBe("n1");
    const untold = await world({ n1: {}, n2: { capabilities: kata(false) } });
    expect(await untold.place(L2)).toBe("n1");
    expect(await untold.place({ ...L2, node: "n1" })).toBe("n1");
    await expect(untold.place({ ...L2, node: "n2" })).rejects.toThrow("n2: no shim");
    const none = await world({ n1: { capabilities: kata(false) }, n2: { capabilities: kata(false) } });
    await expect(none.place(L2)).rejects.toThrow(/n1: no shim.*; n2: no shim/);
  });

  test("that names a node is told what that lacks", async () => {
    const kata = (available: boolean) => [{ name: "kata", available, detail: "no shim" }];
    const { deps, place } = await world({
      n1: { capabilities: kata(true) },
      n2: { capabilities: kata(false) },
      n3: {},
    });
    await deps.records.transact((tx) =>
      tx.put(nodeRecords, "n1", joinedNode("n1", { labels: { disk: "ssd" } })),
    );
    const selecting = { workerNodes: { nodeSelector: { disk: "ssd" } } };
    expect(await place({ ...selecting, node: "n1" })).toBe("n1");
    await expect(place({ ...selecting, node: "n2" })).rejects.toThrow("node n2 does not have these labels");
    // One that has not told yet is asked, though others have.
    expect(await place({ isolationLevel: "L2", node: "n3" })).toBe("n3");
    await expect(place({ node: "n9" })).rejects.toThrow(
      "'n9' is no node that is online; these are: n1, n2, n3",
    );
  });

  test("of several replicas keeps the node that it names among them", async () => {
    const { placed } = await world({ n1: {}, n2: { cordoned: true }, n3: {}, n4: {} });
    const { node, spread, decisions } = await placed({ controlPlane: { tier: "Enterprise" }, node: "n2" });
    expect(node).toBe("n2");
    expect(spread?.nodes.map((each) => [each.node, each.slot])).toEqual([
      ["n2", 0],
      ["n3", 1],
      ["n4", 2],
    ]);
    // Nobody decided about the one that was named.
    expect(decisions.map((each) => [each.part, each.node])).toEqual([
      ["replica-2", "n3"],
      ["replica-3", "n4"],
    ]);
  });
});
