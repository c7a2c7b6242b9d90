import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer } from "../../testing/quota-world.ts";
import { cacheReader } from "../v1/adapter.ts";
import { virtualClusterAdapter } from "../v1/adapters/virtual-cluster.ts";
import { PodMapping } from "./pod-mapping.ts";
import { freeNetwork } from "./spread-cluster.ts";
import { VirtualClusters } from "./virtual-clusters.ts";
import { boardPlacer } from "../../testing/board-placer.ts";
import { quietKinds, quietWatch } from "../../testing/quiet-kinds.ts";

const UPID = "UPID:n1:00000001:00000001:00000001:vccreate:demo:root@pam:";
const spec = { workerNodes: { count: 3 }, scheduling: { spread: true } };
const ctx = { requestId: "r", signal: new AbortController().signal } as unknown as RequestContext;

function boardOf(names: readonly string[], more: Partial<NodeView> = {}): NodeBoard {
  const views = names.map((node, at): NodeView => ({
    node,
    nodeid: at + 1,
    health: "online",
    address: `192.0.2.${at + 1}`,
    lastSeen: 0,
    certFingerprint: "",
    report: undefined,
    facts: undefined,
    ...more,
  }));
  const get = (node: string) => views.find((view) => view.node === node);
  return { list: () => views, get, generation: () => 1 };
}

async function world(names: readonly string[] = ["a", "b", "c"]) {
  const clock = new FakeClock(1_000_000);
  const node = { node: "a", call: () => Promise.reject(new Error("not asked")) };
  const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), {
    owner: "s1",
    clock,
    node,
  });
  const { records, quotas } = server;
  const close = () => server.close();
  const asked: { node: string; route: string; params: Record<string, unknown> }[] = [];
  const refusing = new Set<string>();
  /** Nodes to which new workers do not come. */
  const failing = new Set<string>();
  let ended = Promise.resolve();
  const ending = (until: Promise<void>): void => {
    ended = until;
  };
  const all = boardOf(names);
  /** Nodes that are away. */
  const offline = new Set<string>();
  const get: NodeBoard["get"] = (node) => {
    const view = all.get(node);
    return view !== undefined && offline.has(node) ? { ...view, health: "offline" } : view;
  };
  const board: NodeBoard = { ...all, get };
  const answers = (at: string, route: string): unknown => {
    if (refusing.has(`${at} ${route.split(" ", 1)[0]}`)) throw new AppError("object.conflict", "no VXLAN");
    if (route.endsWith("/volumes")) return [];
    if (route.startsWith("GET ") && route.endsWith("/scale")) return { workers: 3 };
    if (route.endsWith("/scale")) return UPID.replace("n1", at);
    if (route.endsWith("/authority")) return { version: "1.36.3", secrets: { "ca.key": "KEY" } };
    if (route.endsWith("/pods"))
      return at === "b"
        ? [{ vcluster: "demo", tenant: "default", vnode: "worker-2", namespace: "x", name: "p" }]
        : [];
    return UPID;
  };
  const calls = {
    call: async (at: string, route: string, params: object) => {
      if (!route.endsWith("/volumes") && !(route.startsWith("GET ") && route.endsWith("/scale")))
        asked.push({ node: at, route, params: params as Record<string, unknown> });
      return { data: answers(at, route) } as never;
    },
  };
  const clusters = new VirtualClusters({
    ...quietWatch,
    placer: boardPlacer({ records, board }),
    records,
    board,
    clock,
    quotas: quotas.view,
    taskEnd: async (upid) => {
      await ended;
      if (failing.has(upid.split(":")[1] ?? "")) throw new AppError("operation.failed", "is not Ready");
    },
    calls,
  });
  const create = () => clusters.create({ name: "demo", namespace: undefined, spec }, ctx);
  const told = (): string[] =>
    asked.map(({ node: at, route }) => `${at} ${route.replace("/gpve/nodes/{node}", "")}`);
  return { records, clusters, create, asked, told, refusing, failing, ending, offline, close, board, calls };
}

describe("a cluster on several nodes", () => {
  test("is told to each, with what signs for those that have workers alone", async () => {
    const { create, clusters, asked, told, close } = await world();
    await create();
    const { node, spread } = clusters.require("demo");
    expect([node, spread?.network, spread?.nodes.map((each) => each.node)]).toEqual([
      "a",
      2048,
      ["a", "b", "c"],
    ]);
    expect(told()).toEqual([
      "a POST /vclusters",
      "a GET /vclusters/{vcluster}/authority",
      "b POST /vclusters",
      "c POST /vclusters",
    ]);
    expect(asked[0]?.params).not.toHaveProperty("secrets");
    expect(asked[3]?.params).toMatchObject({
      network: 2048,
      overlay: { at: 2, nodes: spread?.nodes },
      secrets: { "ca.key": "KEY" },
      spec: { kubernetesVersion: "1.36.3", scheduling: { spread: true } },
    });
    await close();
  });

  test("is taken back everywhere when one node refuses its part", async () => {
    const { create, told, refusing, records, close } = await world();
    refusing.add("c POST");
    await expect(create()).rejects.toThrow("no VXLAN");
    const deleted = told().filter((line) => line.includes("DELETE"));
    expect(deleted.map((line) => line[0])).toEqual(["c", "b", "a"]);
    expect(records.collection(vclusterCollection).list()).toEqual([]);
    // One that does not give it up again still has it.
    refusing.add("b DELETE");
    await expect(create()).rejects.toThrow("no VXLAN");
    expect(records.collection(vclusterCollection).list()).toHaveLength(1);
    await close();
  });

  test("is stopped, scaled and deleted on all of them; its control plane alone is woken", async () => {
    const { create, clusters, told, asked, close } = await world();
    await create();
    const during = async (work: () => Promise<unknown>): Promise<string> => {
      asked.length = 0;
      await work();
      return told()
        .map((line) => line[0])
        .join("");
    };
    expect(await during(() => clusters.work("demo", "stop", ctx, "r2"))).toBe("abc");
    expect(await during(() => clusters.work("demo", "wake", ctx, "r3"))).toBe("a");
    expect(await during(() => clusters.scale("demo", { count: 5 }, ctx, "r4"))).toBe("abc");
    expect(await during(() => clusters.remove("demo", ctx))).toBe("cba");
    await close();
  });

  test("is scaled on none of them where one cannot, and its room is not taken", async () => {
    const { create, clusters, told, asked, refusing, close } = await world();
    await create();
    refusing.add("c GET");
    for (const count of [5, 2]) {
      asked.length = 0;
      await expect(clusters.scale("demo", { count }, ctx, "r4")).rejects.toThrow("no VXLAN");
      expect(told().filter((line) => line.includes("POST"))).toEqual([]);
      expect(clusters.require("demo").spec.workers).toBe(3);
    }
    await close();
  });

  test("is not scaled while one of them is away", async () => {
    const { create, clusters, told, asked, offline, close } = await world();
    await create();
    asked.length = 0;
    offline.add("b");
    await expect(clusters.scale("demo", { count: 5 }, ctx, "r4")).rejects.toThrow(
      "virtual cluster 'demo' cannot be scaled while nodes that have a part of it are away: b",
    );
    expect([told(), clusters.require("demo").spec.workers]).toEqual([[], 3]);
    await close();
  });

  test("has as many workers as before on all of them where some do not come to one", async () => {
    const { create, clusters, told, asked, failing, refusing, ending, close } = await world();
    await create();
    asked.length = 0;
    failing.add("b");
    await clusters.scale("demo", { count: 6 }, ctx, "r4");
    await expect.poll(() => clusters.require("demo").spec.workers).toBe(3);
    const scaled = asked.filter(({ route }) => route.startsWith("POST"));
    expect(scaled.map(({ node, params }) => `${node}${String(params["workers"])}`)).toEqual([
      "a6",
      "b6",
      "c6",
      "a3",
      "c3",
    ]);
    // Somebody has volumes there by then: nobody is told to give up what counts.
    const end = Promise.withResolvers<void>();
    ending(end.promise);
    asked.length = 0;
    await clusters.scale("demo", { count: 6 }, ctx, "r5");
    refusing.add("c GET");
    end.resolve();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(clusters.require("demo").spec.workers).toBe(6);
    expect(told().filter((line) => line.includes("POST"))).toHaveLength(3);
    await close();
  });

  test("shows its workers with their nodes, and finds pods on any", async () => {
    const { create, records, close, calls } = await world();
    await create();
    const vnode = (name: string) => ({ name, running: true, cpus: 1, memoryBytes: 1, pods: 0 });
    const board: NodeBoard = {
      ...boardOf([]),
      get: (node) =>
        ({
          ...boardOf([node]).get(node),
          report: {
            vclusters: [
              {
                name: "demo",
                phase: "Running",
                power: "hot",
                vnodes: [vnode(node === "a" ? "worker-1" : "worker-2")],
              },
            ],
          },
        }) as unknown as NodeView,
    };
    const shown = virtualClusterAdapter({ ...quietKinds, board }).get(cacheReader(records), "demo")?.status;
    expect(shown?.["vnodes"]).toMatchObject([{ node: "a" }, { node: "b" }, { node: "c" }]);
    const mapping = new PodMapping({ records, board, calls });
    const found = await mapping
      .of({ vcluster: "demo", pod: "p", namespace: "x" }, ctx)
      .catch((err: unknown) => err);
    expect(found).toMatchObject({ vnode: "worker-2", node: "b" });
    await close();
  });

  test("is on one node where there is no other", async () => {
    const { create, clusters, told, close } = await world(["a"]);
    await create();
    expect([clusters.require("demo").spread, told()]).toEqual([undefined, ["a POST /vclusters"]]);
    await close();
  });
});

describe("the network of a cluster", () => {
  const record = (name: string, network: number, nodes: readonly string[]): VirtualClusterRecord => ({
    name,
    tenant: "default",
    node: "a",
    spec: readVirtualClusterSpec({}),
    madeBy: "",
    spread: { network, nodes: nodes.map((node) => ({ node, address: "" })) },
  });

  test("runs out with a reason", () => {
    const all = Array.from({ length: 2048 }, (_none, at) => record(`c${at}`, 2048 + at, []));
    expect(() => freeNetwork(all)).toThrow("are taken");
  });
});
