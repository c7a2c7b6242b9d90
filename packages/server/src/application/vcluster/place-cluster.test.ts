// Which node gets a virtual cluster: one that takes new guests, and has room for it.
import { afterEach, describe, expect, test } from "vitest";
import type { Capability, NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { managerCollection, MANAGER_STATUS_ID } from "@gpve/domain/ha/collections.ts";
import { emptyManagerStatus } from "@gpve/domain/ha/model.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer } from "../../testing/quota-world.ts";
import { nodeRecords } from "../node/collections.ts";
import { fittingNodes, placeCluster, requireRoomOn } from "./place-cluster.ts";
import { placeRestored } from "./place-restored.ts";
import { placedReplicas } from "./replicas/replica-nodes.ts";
import { joinedNode } from "../../testing/joined-node.ts";

const GIB = 2 ** 30;

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
  const deps = { records, board };
  const wanted = (spec: object = {}) => readVirtualClusterSpec(spec as Record<string, unknown>);
  return { deps, wanted, place: (spec: object = {}) => placeCluster(deps, wanted(spec)) };
}

describe("a virtual cluster", () => {
  test("goes to no node in maintenance, unless it names that node", async () => {
    const { place, deps } = await world({ n1: {}, n2: {} });
    const status = { ...emptyManagerStatus(), maintenance: { n2: true as const } };
    await deps.records.transact((tx) => tx.put(managerCollection, MANAGER_STATUS_ID, status));
    expect(place()).toBe("n1");
    expect(place({ node: "n2" })).toBe("n2");
  });

  test("goes to no node that is cordoned or tainted, unless it names that node", async () => {
    const { place, deps, wanted } = await world({
      n1: {},
      n2: { cordoned: true },
      n3: { taints: ["dedicated=db"] },
      n4: { taints: ["slow:PreferNoSchedule"] },
    });
    expect(fittingNodes(deps, wanted()).map(({ node }) => node)).toEqual(["n4", "n1"]);
    expect(place()).toBe("n4");
    expect(place({ node: "n2" })).toBe("n2");
    expect(place({ node: "n3" })).toBe("n3");
  });

  test("that is made of a backup goes to a node that sees it and is open, and has all its workers there", async () => {
    const { deps, wanted } = await world({
      n1: { cordoned: true },
      n2: {},
      n3: { memoryGiB: 4 },
    });
    const asked: string[] = [];
    const restored = (node: string, spec: object = {}, sees: readonly string[] = []) =>
      placeRestored(deps, wanted(spec), {
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
    await expect(restored("n2", large)).rejects.toThrow("n2: the workers may use 100 GiB");
    const named = { isNamed: true, seenBy: async () => undefined };
    expect(await placeRestored(deps, wanted(), { node: "n1", ...named })).toBe("n1");
    await expect(placeRestored(deps, wanted(spread), { node: "n3", ...named })).rejects.toThrow(
      "node n3 cannot have the virtual cluster: the workers may use 8 GiB",
    );
  });

  test("is refused with the reason of every node", async () => {
    const { place } = await world({
      n1: { cordoned: true },
      n2: { taints: ["dedicated=db"] },
      n3: { availableGiB: 0.125 },
    });
    expect(() => place()).toThrow(
      "no node can have the virtual cluster. n1: it is cordoned; n2: it has the taint dedicated=db:NoSchedule; n3: 128 MiB of its memory are free, and a control plane takes 300 MiB",
    );
  });

  test("has no more memory for its workers than its node has for guests", async () => {
    const { place, deps, wanted } = await world({ small: { memoryGiB: 4 }, large: { memoryGiB: 64 } });
    const workers = (count: number, memory: string, more: object = {}) => ({
      workerNodes: { count, resources: { memory } },
      ...more,
    });
    expect(place(workers(2, "8Gi"))).toBe("large");
    expect(() => place(workers(2, "8Gi", { node: "small" }))).toThrow(
      "node small cannot have the virtual cluster: the workers may use 16 GiB, and all guests of the node together 4 GiB",
    );
    expect(() => place(workers(1, "100Gi"))).toThrow("large: the workers may use 100 GiB");
    // Dealt out, each node has its share.
    expect(
      fittingNodes(deps, wanted(workers(4, "2Gi", { scheduling: { spread: true } }))).map(({ node }) => node),
    ).toEqual(["large", "small"]);
    const view = deps.board.get("small");
    expect(view === undefined ? "" : requireRoomOn(view, wanted(workers(1, "2Gi")))).toBe("small");
  });

  test("is refused a control plane that no node has, with the numbers", async () => {
    const { place, deps, wanted } = await world({ small: { memoryGiB: 4 }, large: { memoryGiB: 64 } });
    const asks = (resources: object, more: object = {}) => ({ controlPlane: { resources, ...more } });
    expect(place(asks({ memory: "32Gi" }))).toBe("large");
    expect(() => place(asks({ memory: "128Gi" }))).toThrow(
      "no node can have the virtual cluster. large: its control plane asks for 128 GiB (spec.controlPlane.resources), and the node has 64 GiB; small: its control plane asks for 128 GiB",
    );
    expect(() => place(asks({ cpu: 64 }))).toThrow(
      "small: its control plane asks for 64 CPUs (spec.controlPlane.resources), and the node has 4",
    );
    expect(() => place({ ...asks({ memory: "8Gi" }), node: "small" })).toThrow(
      "node small cannot have the virtual cluster: its control plane asks for 8 GiB",
    );
    // What a tier has without being asked is a bound, and nothing that is set aside.
    expect(place({ controlPlane: { tier: "Enterprise", replicas: 1 }, node: "small" })).toBe("small");
    expect(place({ ...asks({ cpu: 2 }, { tier: "Enterprise", replicas: 1 }), node: "small" })).toBe("small");
    // One that is there is not left where it cannot be.
    const there = wanted(asks({ memory: "128Gi" }));
    expect(fittingNodes(deps, there)).toHaveLength(2);
    expect(() => placedReplicas(deps, { ...there, replicas: 3 }, "large")).toThrow("only these are online");
  });

  test("whose workers have devices goes where they are", async () => {
    const gpus = (count: number) => [{ kind: "example.com/gpu", count }];
    const { place } = await world({ n1: { devices: gpus(2) }, n2: {}, n3: { devices: gpus(1) } });
    const devices = { "example.com/gpu": 1 };
    expect(place({ workerNodes: { count: 2, devices } })).toBe("n1");
    expect(() => place({ workerNodes: { count: 1, devices }, node: "n2" })).toThrow(
      "node n2 cannot have the virtual cluster: its workers would have 1 example.com/gpu, and the node offers 0",
    );
    expect(() => place({ workerNodes: { count: 3, devices } })).toThrow(
      /n1: its workers would have 3 example.com\/gpu, and the node offers 2; n2: .* offers 0; n3: .* offers 1/,
    );
  });

  test("with pods that are machines goes where Kata is, else to who has not told yet and is asked", async () => {
    const kata = (available: boolean) => [{ name: "kata", available, detail: "no shim" }];
    const L2 = { isolationLevel: "L2" };
    const some = await world({ n1: { capabilities: kata(true) }, n2: {}, n3: { capabilities: kata(false) } });
    expect(some.place(L2)).toBe("n1");
    const untold = await world({ n1: {}, n2: { capabilities: kata(false) } });
    expect(untold.place(L2)).toBe("n1");
    expect(untold.place({ ...L2, node: "n1" })).toBe("n1");
    expect(() => untold.place({ ...L2, node: "n2" })).toThrow("n2: no shim");
    const none = await world({ n1: { capabilities: kata(false) }, n2: { capabilities: kata(false) } });
    expect(() => none.place(L2)).toThrow(/n1: no shim.*; n2: no shim/);
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
    expect(place({ ...selecting, node: "n1" })).toBe("n1");
    expect(() => place({ ...selecting, node: "n2" })).toThrow("node n2 does not have these labels");
    // One that has not told yet is asked, though others have.
    expect(place({ isolationLevel: "L2", node: "n3" })).toBe("n3");
    expect(() => place({ node: "n9" })).toThrow("'n9' is no node that is online; these are: n1, n2, n3");
  });

  test("of several replicas keeps the node that it names among them", async () => {
    const { deps, wanted } = await world({ n1: {}, n2: { cordoned: true }, n3: {}, n4: {} });
    const nodes = placedReplicas(deps, wanted({ controlPlane: { tier: "Enterprise" } }), "n2");
    expect(nodes.map(({ node }) => node)).toEqual(["n2", "n3", "n4"]);
  });
});
