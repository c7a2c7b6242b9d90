import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { quietLog } from "../../../testing/agent-face.ts";
import { openQuotaServer } from "../../../testing/quota-world.ts";
import { cacheReader } from "../../v1/adapter.ts";
import { virtualClusterAdapter } from "../../v1/adapters/virtual-cluster.ts";
import { VirtualClusters } from "../virtual-clusters.ts";
import { clusterDecisionsDef } from "../placing/cluster-decisions.ts";
import { KeepReplicas } from "./keep-replicas.ts";
import { replicaTargets } from "./replica-nodes.ts";
import { boardPlacer } from "../../../testing/board-placer.ts";
import { joinedNode } from "../../../testing/joined-node.ts";
import { nodeRecords } from "../../node/collections.ts";
import { quietKinds, quietWatch } from "../../../testing/quiet-kinds.ts";

const UPID = "UPID:n1:00000001:00000001:00000001:vccreate:trio:root@pam:";
const spec = { controlPlane: { tier: "Enterprise" } };
const { signal } = new AbortController();
const ctx = { requestId: "r", signal, host: "gpve.example.org:8006" } as unknown as RequestContext;

interface Node {
  health: NodeView["health"];
  /** Of its replica; undefined = it has none. */
  phase?: string | undefined;
  readonly endpoint?: string;
}

/** `refused`: by the scheduler, whom the cluster's own rules are for. */
async function world(names: readonly string[] = ["a", "b", "c", "d"], refused?: readonly string[]) {
  const clock = new FakeClock(1_000_000);
  const store = openSqliteStore({ path: ":memory:" });
  const node = { node: "a", call: () => Promise.reject(new Error("not asked")) };
  const server = await openQuotaServer(store, { owner: "s1", clock, node });
  const { records, quotas } = server;
  /** Other clusters on the same nodes. */
  const more: string[] = [];
  const nodes = new Map<string, Node>(names.map((name) => [name, { health: "online" }]));
  const view = (name: string): NodeView | undefined => {
    const found = nodes.get(name);
    if (found === undefined) return undefined;
    const address = `192.0.2.${names.indexOf(name) + 1}`;
    const { phase, health, endpoint = `https://${address}:18491` } = found;
    const row = {
      name: "trio",
      phase,
      power: phase === "Running" || phase === "Scaling" ? "hot" : "cold",
      endpoint,
    };
    const rows = ["trio", ...more].map((each) => ({ ...row, name: each }));
    const report = { vclusters: phase === undefined ? [] : rows };
    return {
      node: name,
      nodeid: 1,
      health,
      address,
      lastSeen: 0,
      certFingerprint: "",
      facts: undefined,
      report,
    } as unknown as NodeView;
  };
  const board: NodeBoard = {
    list: () => names.flatMap((name) => view(name) ?? []),
    get: view,
    generation: () => 1,
  };
  /** A node that is lost as soon as a replica is deleted. */
  let lostWith: string | undefined;
  const losing = (node: string): void => {
    lostWith = node;
  };
  /** Clusters whose nodes take their time. */
  const slow = new Set<string>();
  const asked: { node: string; route: string; params: Record<string, unknown> }[] = [];
  /** Nodes that find no binding of a kubeconfig. */
  const unknown = new Set<string>();
  const calls = {
    call: async (at: string, route: string, params: object) => {
      if (nodes.get(at)?.health !== "online") throw new AppError("node.unavailable", `${at} is away`);
      if (route.endsWith("/volumes")) return { data: [] } as never;
      if (route.startsWith("GET ") && route.endsWith("/scale")) return { data: { workers: 3 } } as never;
      asked.push({ node: at, route, params: params as Record<string, unknown> });
      if (route.endsWith("/kubeconfigs/{id}") && unknown.has(at))
        throw new AppError("object.not_found", "it has no kubeconfig '1'");
      const { vcluster = "" } = params as { readonly vcluster?: string };
      while (slow.has(vcluster)) await new Promise((resolve) => setTimeout(resolve, 5));
      if (route === "POST /gpve/nodes/{node}/vclusters")
        nodes.set(at, { health: "online", phase: "Running" });
      if (route === "DELETE /gpve/nodes/{node}/vclusters/{vcluster}") {
        nodes.set(at, { health: "online" });
        if (lostWith !== undefined) nodes.set(lostWith, { health: "offline", phase: "Running" });
      }
      const secrets = { version: "1.36.4", secrets: { "ca.key": "K", "sa.key": "S" } };
      const kubeconfig = { id: "1", kubeconfig: "K", expiresAt: 0 };
      const data = route.endsWith("/authority") ? secrets : route.endsWith("/kubeconfig") ? kubeconfig : UPID;
      return { data } as never;
    },
  };
  const taskEnd = async () => undefined;
  if (refused !== undefined)
    await records.transact((tx) => {
      for (const name of names)
        tx.put(
          nodeRecords,
          name,
          joinedNode(name, refused.includes(name) ? {} : { labels: { good: "yes" } }),
        );
    });
  const placer = boardPlacer({ records, board });
  const clusters = new VirtualClusters({
    ...quietWatch,
    records,
    board,
    clock,
    quotas: quotas.view,
    taskEnd,
    calls,
    placer,
  });
  let count = 0;
  const newRequestId = () => `id-${count++}`;
  const keeper = new KeepReplicas({
    records,
    board,
    calls,
    clock,
    log: quietLog,
    newRequestId,
    taskEnd,
    placer,
  });
  const told = (): string[] =>
    asked.splice(0).map(({ node: at, route }) => `${at} ${route.replace("/gpve/nodes/{node}", "")}`);
  /** For long enough, looking now and then. */
  const pass = async (): Promise<void> => {
    for (let at = 0; at < 14; at++) {
      await keeper.look(signal);
      await clock.advance(5_000);
    }
  };
  const rules = refused === undefined ? {} : { scheduling: { nodeAffinity: { required: ["good=yes"] } } };
  const create = () =>
    clusters.create({ name: "trio", namespace: undefined, spec: { ...spec, ...rules } }, ctx);
  const record = (): VirtualClusterRecord => clusters.require("trio");
  const places = (): string[] => record().spread?.nodes.map((each) => `${each.node}${each.slot}`) ?? [];
  const status = () =>
    virtualClusterAdapter({ ...quietKinds, board }).get(cacheReader(records), "trio")?.status;
  return {
    clusters,
    create,
    nodes,
    asked,
    unknown,
    told,
    pass,
    record,
    places,
    status,
    board,
    records,
    slow,
    losing,
    more,
    close: () => server.close(),
  };
}

describe("a control plane of several replicas", () => {
  test("is on as many nodes, and the first gives the others what they all have alike", async () => {
    const { create, places, asked, told, close } = await world();
    await create();
    expect(places()).toEqual(["a0", "b1", "c2"]);
    expect(asked[0]?.params).not.toHaveProperty("secrets");
    expect(asked[3]?.params).toMatchObject({ overlay: { at: 2 }, secrets: { "sa.key": "S" } });
    expect(told().map((line) => line[0])).toEqual(["a", "a", "b", "c"]);
    await close();
  });

  test("is refused with the reason where there are too few nodes", async () => {
    const { create, records, close } = await world(["a", "b"]);
    await expect(create()).rejects.toThrow(
      "3 replicas are on as many nodes, and only these are online and fit: a, b",
    );
    expect(records.collection(vclusterCollection).list()).toEqual([]);
    await close();
  });

  test("is asked where it serves, by the address that the client knows", async () => {
    const { create, clusters, nodes, asked, told, board, record, close } = await world();
    await create();
    nodes.set("a", { health: "offline", phase: "Running" });
    told();
    await clusters.kubeconfig("trio", 1, ctx);
    expect(asked[0]).toMatchObject({ node: "b", params: { server: "https://gpve.example.org:8006" } });
    await clusters.logs("trio", ctx);
    await clusters.work("trio", "wake", ctx, "r2");
    expect(told().map((line) => line[0])).toEqual(["b", "b", "b"]);
    nodes.set("c", { health: "online", phase: "Failed" });
    await clusters.work("trio", "retry", ctx, "r3");
    expect(told()).toEqual(["c POST /vclusters/{vcluster}/retry"]);
    await clusters.work("trio", "start", ctx, "r4");
    expect(told().map((line) => line[0])).toEqual(["b", "c"]);
    await expect(clusters.work("trio", "stop", ctx, "r5")).rejects.toThrow("a is away");
    const hosts = (name: string) => replicaTargets(board, [record()], name)?.map(({ host }) => host);
    expect(hosts("trio.default.vc.gpve")).toEqual(["192.0.2.2", "192.0.2.1", "192.0.2.3"]);
    expect(hosts("other.default.vc.gpve")).toBeUndefined();
    // Whatever a node says, nobody is led to another place, and nothing falls over it.
    nodes.set("b", { health: "online", phase: "Running", endpoint: "https://203.0.113.9:2379" });
    nodes.set("c", { health: "online", phase: "Running", endpoint: "no address" });
    expect(hosts("trio.default.vc.gpve")).toEqual(["192.0.2.2", "192.0.2.1"]);
    await close();
  });

  test("denies a kubeconfig that was taken back at each of its replicas, and says where not yet", async () => {
    const { create, clusters, nodes, told, asked, unknown, close } = await world();
    const revoke = () => clusters.revoke("trio", "1", ctx);
    await create();
    told();
    nodes.set("a", { health: "offline", phase: "Running" });
    // The one that is asked first takes the binding away.
    unknown.add("c");
    await expect(revoke()).rejects.toThrow(
      "kubeconfig '1' of virtual cluster 'trio' is revoked, but its replicas on a have not heard of it: try again when they serve",
    );
    expect(asked.map(({ node, params }) => `${node} ${String(params["id"])}`)).toEqual(["b 1", "c 1"]);
    nodes.set("a", { health: "online", phase: "Running" });
    unknown.add("a");
    told();
    await revoke();
    expect(told().map((line) => line[0])).toEqual(["a", "b", "c"]);
    unknown.add("b");
    await expect(revoke()).rejects.toThrow("has no kubeconfig");
    await close();
  });

  test("has its workers on all of its nodes, which are told of as many while all are there", async () => {
    const { create, clusters, nodes, told, asked, record, close } = await world();
    await create();
    told();
    await clusters.scale("trio", { count: 4 }, ctx, "r2");
    expect(asked.map(({ params }) => params)).toMatchObject([{ workers: 4 }, { workers: 4 }, { workers: 4 }]);
    expect(told().map((line) => line[0])).toEqual(["a", "b", "c"]);
    nodes.set("b", { health: "offline", phase: "Running" });
    nodes.set("c", { health: "online" });
    await expect(clusters.scale("trio", { count: 5 }, ctx, "r3")).rejects.toThrow(
      "while not all of its replicas serve: b is offline; c is Pending",
    );
    expect([told(), record().spec.workers]).toEqual([[], 4]);
    await close();
  });

  test("is replaced whatever keeps another cluster's nodes busy", async () => {
    const { create, records, record, nodes, pass, slow, more, asked, places, close } = await world();
    await create();
    // It comes first, and its nodes do not end what they are told.
    await records.transact((tx) => tx.put(vclusterCollection, "first", { ...record(), name: "first" }));
    more.push("first");
    slow.add("first");
    nodes.set("b", { health: "offline", phase: "Running" });
    const passing = pass();
    await expect.poll(() => places()).toEqual(["a0", "d3", "c2"]);
    await expect
      .poll(() =>
        asked.some(({ route, params }) => route.endsWith("/authority") && params["vcluster"] === "trio"),
      )
      .toBe(true);
    slow.clear();
    await passing;
    await close();
  });

  test("does not sleep, and says so", async () => {
    const { create, clusters, close } = await world();
    await create();
    await expect(clusters.sleep("trio", "cold", ctx, "r2")).rejects.toThrow(
      "of several replicas does not sleep",
    );
    await close();
  });

  test("shows how many of them serve, and is ready while most of them do", async () => {
    const { create, nodes, status, close } = await world();
    await create();
    expect(status()).toMatchObject({
      phase: "Running",
      conditions: [{ status: "True" }, { status: "True" }],
    });
    nodes.set("a", { health: "offline", phase: "Running" });
    expect(status()).toMatchObject({
      node: "b",
      replicas: [{ node: "a", phase: "Unknown", ready: false }, { ready: true }, { ready: true }],
      conditions: [
        { type: "Ready", status: "True" },
        { type: "ReplicasReady", status: "False", message: "2 of 3 replicas serve; a is offline" },
      ],
    });
    nodes.set("b", { health: "online", phase: "Scaling" });
    expect(status()).toMatchObject({ replicas: [{}, { phase: "Scaling", ready: true }, { ready: true }] });
    nodes.set("b", { health: "online" });
    expect(status()).toMatchObject({ conditions: [{ type: "Ready", status: "False" }, { status: "False" }] });
    await close();
  });
});

describe("a replica whose node is lost", () => {
  test("comes to be on another node, and is taken away from the first when that is back", async () => {
    const { create, nodes, pass, told, asked, places, record, records, close } = await world();
    await create();
    told();
    nodes.set("a", { health: "offline", phase: "Running" });
    await pass();
    expect(places()).toEqual(["d3", "b1", "c2"]);
    const decided = records.collection(clusterDecisionsDef).get("trio")?.value.parts;
    expect(decided?.map(({ part, node }) => `${part} ${node}`)).toEqual([
      "replica-2 b",
      "replica-3 c",
      "replica-1 d",
    ]);
    expect(record()).toMatchObject({ node: "d", abandoned: ["a"] });
    expect(asked.at(-1)?.params).toMatchObject({
      overlay: { at: 0 },
      secrets: { "sa.key": "S" },
      spec: { kubernetesVersion: "1.36.4" },
    });
    expect(told()).toEqual([
      "b PUT /vclusters/{vcluster}/overlay",
      "c PUT /vclusters/{vcluster}/overlay",
      "b GET /vclusters/{vcluster}/authority",
      "d POST /vclusters",
    ]);
    nodes.set("a", { health: "online", phase: "Running" });
    await pass();
    expect(told()).toEqual(["a DELETE /vclusters/{vcluster}"]);
    expect(record()).not.toHaveProperty("abandoned");
    await close();
  });

  test("comes to be only where the cluster's own rules let it", async () => {
    const { create, nodes, pass, places, close } = await world(["a", "b", "c", "d", "e"], ["d"]);
    await create();
    expect(places()).toEqual(["a0", "b1", "c2"]);
    nodes.set("c", { health: "offline", phase: "Running" });
    await pass();
    expect(places()).toEqual(["a0", "b1", "e3"]);
    await close();
  });

  test("waits for its node where there is no other, and is made there anew where that has nothing", async () => {
    const { create, nodes, pass, told, places, record, close } = await world(["a", "b", "c"]);
    await create();
    told();
    nodes.set("c", { health: "offline", phase: "Running" });
    await pass();
    expect([told(), places()]).toEqual([[], ["a0", "b1", "c2"]]);
    nodes.set("c", { health: "online" });
    await pass();
    expect(places()).toEqual(["a0", "b1", "c3"]);
    expect(told().at(-1)).toBe("c POST /vclusters");
    expect(record()).not.toHaveProperty("abandoned");
    await close();
  });

  test("is left alone while the cluster is being deleted, and where nobody answers", async () => {
    const { create, clusters, nodes, pass, told, places, losing, close } = await world();
    await create();
    nodes.set("b", { health: "offline", phase: "Running" });
    nodes.set("c", { health: "online", phase: "Failed" });
    told();
    await pass();
    expect(told()).toEqual([]);
    for (const name of ["b", "c"]) nodes.set(name, { health: "online", phase: "Running" });
    losing("b");
    await expect(clusters.remove("trio", ctx)).rejects.toThrow("b is away");
    expect(told()).toEqual(["c DELETE /vclusters/{vcluster}"]);
    await pass();
    expect([told(), places()]).toEqual([[], ["a0", "b1", "c2"]]);
    await close();
  });

  test("is replaced as before where its cluster was to be deleted, and nothing of it has gone", async () => {
    const { create, clusters, nodes, pass, told, places, record, close } = await world();
    await create();
    nodes.set("b", { health: "offline", phase: "Running" });
    told();
    await expect(clusters.remove("trio", ctx)).rejects.toThrow("b is away");
    expect([told(), record().isLeaving]).toEqual([[], undefined]);
    await pass();
    expect(places()).toEqual(["a0", "d3", "c2"]);
    await close();
  });
});
