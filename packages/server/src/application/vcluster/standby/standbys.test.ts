import { afterEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { moveCollection } from "@gpve/domain/guest/guest-move.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { StandbyRow, StandbyRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { quietLog } from "../../../testing/agent-face.ts";
import { openQuotaServer } from "../../../testing/quota-world.ts";
import { nodeRecords } from "../../node/collections.ts";
import { cacheReader } from "../../v1/adapter.ts";
import { virtualClusterAdapter } from "../../v1/adapters/virtual-cluster.ts";
import type { EventInput } from "../../v1/events.ts";
import { VirtualClusters } from "../virtual-clusters.ts";
import { clusterDecisionsDef } from "../placing/cluster-decisions.ts";
import { KeepStandbys } from "./keep-standbys.ts";
import { boardPlacer } from "../../../testing/board-placer.ts";
import { quietKinds, quietWatch } from "../../../testing/quiet-kinds.ts";
import { joinedNode } from "../../../testing/joined-node.ts";

const UPID = "UPID:n1:00000001:00000001:00000001:vccreate:demo:root@pam:";
const PROMOTION = UPID.replace("vccreate", "vcpromote");
const { signal } = new AbortController();
const ctx = { requestId: "r", signal, host: "gpve.example.org:8006" } as unknown as RequestContext;

interface Node {
  health: NodeView["health"];
  phase?: string | undefined;
  version: string;
  etcdVersion?: string;
  keysAt?: number;
  standby?: StandbyRuntime | undefined;
  standbys: StandbyRow[];
}

let closeServer = async (): Promise<unknown> => undefined;
afterEach(() => closeServer());

async function world(names: readonly string[] = ["a", "b", "c"], tier = "Standard") {
  const clock = new FakeClock(1_000_000);
  const store = openSqliteStore({ path: ":memory:" });
  const local = { node: "a", call: () => Promise.reject(new Error("not asked")) };
  const server = await openQuotaServer(store, { owner: "s1", clock, node: local });
  closeServer = () => server.close();
  const { records, quotas } = server;
  await records.transact((tx) => {
    for (const [at, name] of names.entries())
      tx.put(nodeRecords, name, joinedNode(name, { nodeid: at + 1, address: `192.0.2.${at + 1}` }));
  });
  const nodes = new Map<string, Node>(
    names.map((name) => [name, { health: "online", version: "1.36.4", standbys: [] }]),
  );
  const view = (name: string): NodeView | undefined => {
    const found = nodes.get(name);
    if (found === undefined) return undefined;
    const { phase, health, standby, standbys, version, keysAt } = found;
    const row = { name: "demo", phase, power: "hot", version, keysAt, standby };
    const report = { vclusters: phase === undefined ? [] : [row], standbys };
    return { node: name, health, address: "192.0.2.1", report } as unknown as NodeView;
  };
  const board: NodeBoard = {
    list: () => names.flatMap((name) => view(name) ?? []),
    get: view,
    generation: () => 1,
  };
  const asked: { node: string; route: string; params: Record<string, unknown> }[] = [];
  let isDeaf = false;
  /** The node that deletes nothing. */
  let refused: string | undefined;
  const refusing = (node: string): void => {
    refused = node;
  };
  const calls = {
    call: async (at: string, route: string, params: object) => {
      const node = nodes.get(at);
      if (node?.health !== "online") throw new AppError("node.unavailable", `${at} is away`);
      const said = params as Record<string, unknown>;
      if (route.endsWith("/volumes")) return { data: [] } as never;
      asked.push({ node: at, route, params: said });
      if (route === "POST /gpve/nodes/{node}/vclusters") node.phase = "Running";
      if (route === "PUT /gpve/nodes/{node}/vcluster-standbys/{vcluster}")
        node.standbys = [{ name: "demo", tenant: "default" }];
      if (route === "DELETE /gpve/nodes/{node}/vcluster-standbys/{vcluster}") node.standbys = [];
      if (route.endsWith("/promote")) [node.standbys, node.phase] = [[], "Running"];
      if (route === "DELETE /gpve/nodes/{node}/vclusters/{vcluster}") {
        if (at === refused) throw new AppError("object.conflict", `${at} says no`);
        delete node.phase;
      }
      if (route.endsWith("/{vcluster}/standby") && !isDeaf) {
        const isStreaming = said["mode"] === "stream";
        const state = { isJoined: isStreaming, isConnected: isStreaming, revision: 9, confirmed: 9 };
        node.standby = { generation: Number(said["generation"]), ...state };
      }
      const { etcdVersion } = node;
      const keys = { version: node.version, ...given({ etcdVersion }), secrets: { "ca.key": "K" } };
      const upid = route.endsWith("/promote") ? PROMOTION : UPID;
      return { data: route.endsWith("/standby-keys") ? keys : upid } as never;
    },
  };
  let promotion = Promise.resolve();
  const taskEnd = (upid: string) => (upid === PROMOTION ? promotion : Promise.resolve());
  const clusters = new VirtualClusters({
    ...quietWatch,
    placer: boardPlacer({ records, board }),
    records,
    board,
    clock,
    quotas: quotas.view,
    taskEnd,
    calls,
  });
  const events: EventInput[] = [];
  let count = 0;
  let silentMs: number | undefined;
  let isAwaited = false;
  const keeper = new KeepStandbys({
    records,
    board,
    placer: boardPlacer({ records, board }),
    calls,
    clock,
    signs: { silentMs: () => silentMs, isAwaited: () => isAwaited },
    log: quietLog,
    taskEnd,
    newRequestId: () => `id-${count++}`,
    recordEvent: (event) => events.push(event),
  });
  const look = (): Promise<void> => keeper.look(signal);
  const pass = async (seconds: number): Promise<void> => {
    for (let at = 0; at < seconds; at++) {
      await clock.advance(1_000);
      await look();
    }
  };
  const told = (): string[] =>
    asked.splice(0).map(({ node: at, route }) => `${at} ${route.replace("/gpve/nodes/{node}", "")}`);
  await clusters.create({ name: "demo", namespace: undefined, spec: { controlPlane: { tier } } }, ctx);
  told();
  return {
    clusters,
    asked,
    refusing,
    told,
    pass,
    look,
    events,
    records,
    at: (name: string): Node => nodes.get(name) ?? { health: "offline", version: "", standbys: [] },
    deaf: (value: boolean) => (isDeaf = value),
    promoting: (until: Promise<void>) => {
      promotion = until;
    },
    silent: (forMs: number, awaited = false) => ([silentMs, isAwaited] = [forMs, awaited]),
    record: (): VirtualClusterRecord => clusters.require("demo"),
    decided: () =>
      records
        .collection(clusterDecisionsDef)
        .get("demo")
        ?.value.parts.map(({ part, node }) => `${part} ${node}`),
    notes: () =>
      records
        .collection(moveCollection)
        .list()
        .map(({ value }) => value),
    status: () => virtualClusterAdapter({ ...quietKinds, board }).get(cacheReader(records), "demo")?.status,
    condition: (): unknown => {
      const shown = virtualClusterAdapter({ ...quietKinds, board }).get(cacheReader(records), "demo")?.status;
      const all = (shown?.["conditions"] ?? []) as { type: string }[];
      return all.find(({ type }) => type === "StandbyInSync");
    },
  };
}

describe("the standby of a virtual cluster", () => {
  test("is on another node, which has its keys, and is in sync when the store says so", async () => {
    const { look, told, record, notes, condition, asked, events, decided } = await world();
    expect(condition()).toMatchObject({ status: "False", reason: "NoStandby" });
    await look();
    expect(asked[1]?.params).toMatchObject({ secrets: { "ca.key": "K" }, version: "1.36.4" });
    expect(asked[2]?.params).toMatchObject({ mode: "stream", boundMs: 0 });
    expect(told()).toEqual([
      "a GET /vclusters/{vcluster}/standby-keys",
      "b PUT /vcluster-standbys/{vcluster}",
      "a PUT /vclusters/{vcluster}/standby",
    ]);
    expect(condition()).toMatchObject({ status: "False", reason: "CatchingUp" });
    const { generation } = record().standby ?? { generation: 0 };
    expect(notes()).toMatchObject([
      { id: `standby-demo-${generation}`, purpose: "standby", from: { node: "a" }, to: { node: "b" } },
    ]);
    await look();
    expect(record().standby).toMatchObject({ node: "b", of: "a", generation, inSync: true });
    expect(decided()).toEqual(["control-plane a", "standby b"]);
    expect(condition()).toMatchObject({
      status: "True",
      message: "node b has every write before it is answered",
    });
    expect(events.map(({ reason }) => reason)).toEqual(["VCStandbyInSync"]);
    await look();
    expect(told()).toEqual([]);
  });

  test("of a Starter may be a second behind, and a single node has none and says so", async () => {
    const starter = await world(["a", "b"], "Starter");
    await starter.pass(2);
    expect(starter.asked[2]?.params).toMatchObject({ boundMs: 1_000 });
    expect(starter.condition()).toMatchObject({
      status: "True",
      message: expect.stringContaining("last 1 s"),
    });
    await closeServer();
    const alone = await world(["a"]);
    await alone.pass(2);
    expect(alone.told()).toEqual([]);
    expect(alone.condition()).toMatchObject({ status: "False", reason: "OneNode" });
  });

  test("of an etcd is one like the others, which has the version of it", async () => {
    const performance = await world(["a", "b"], "Performance");
    performance.at("a").etcdVersion = "3.6.8";
    await performance.pass(2);
    expect(performance.asked[1]?.params).toMatchObject({ etcdVersion: "3.6.8" });
    expect(performance.asked[2]?.params).toMatchObject({ mode: "stream", boundMs: 0 });
    expect(performance.condition()).toMatchObject({
      status: "True",
      message: "node b has every write before it is answered",
    });
    await closeServer();
    const alone = await world(["a"], "Performance");
    await alone.pass(2);
    expect(alone.condition()).toMatchObject({ status: "False", reason: "OneNode" });
  });

  test("that does not confirm is gone on without, which is written down first, and comes back", async () => {
    const { pass, at, told, record, condition, events } = await world(["a", "b"]);
    await pass(2);
    told();
    const joined = record().standby?.generation ?? 0;
    at("b").health = "offline";
    at("a").standby = { generation: joined, isJoined: true, isConnected: false, revision: 9, confirmed: 8 };
    await pass(7);
    expect(told()).toEqual(["a PUT /vclusters/{vcluster}/standby"]);
    expect(record().standby).toMatchObject({ mode: "solo", inSync: false });
    expect(record().standby?.generation).toBeGreaterThan(joined);
    expect(condition()).toMatchObject({ status: "False", reason: "StandbyAway" });
    expect(events.at(-1)).toMatchObject({ type: "Warning", reason: "VCStandbyAway" });
    await pass(90);
    expect(told()).toEqual([]);
    at("b").health = "online";
    await pass(12);
    expect(record().standby).toMatchObject({ mode: "stream", inSync: true, node: "b" });
  });

  test("whose node stays away is another node's, and what the first has of it goes", async () => {
    const { pass, at, told, record } = await world();
    await pass(2);
    at("b").health = "offline";
    const { generation = 0 } = record().standby ?? {};
    at("a").standby = { generation, isJoined: true, isConnected: false, revision: 9, confirmed: 8 };
    await pass(70);
    expect(record().standby).toMatchObject({ node: "c", inSync: true });
    told();
    at("b").health = "online";
    await pass(1);
    expect(told()).toEqual(["b DELETE /vcluster-standbys/{vcluster}"]);
  });

  test("is told again what its nodes do not know, and of a new version and new keys", async () => {
    const { pass, at, told, deaf, record, asked } = await world();
    deaf(true);
    await pass(2);
    told();
    await pass(11);
    expect(told()).toContain("a PUT /vclusters/{vcluster}/standby");
    deaf(false);
    await pass(12);
    expect(record().standby?.inSync).toBe(true);
    told();
    at("a").version = "1.37.0";
    await pass(1);
    expect(asked.find(({ node }) => node === "b")?.params).toMatchObject({ version: "1.37.0" });
    expect(record().standby).toMatchObject({ version: "1.37.0", inSync: true });
    told();
    await pass(1);
    expect(told()).toEqual([]);
    at("a").keysAt = 7;
    await pass(1);
    expect(told()).toContain("b PUT /vcluster-standbys/{vcluster}");
    expect(record().standby).toMatchObject({ keysAt: 7, inSync: true });
    await pass(2);
    expect(told()).toEqual([]);
  });

  test("is forgotten when the cluster has moved, and when it is deleted", async () => {
    const { pass, told, record, clusters, notes, at, records } = await world();
    await pass(2);
    await records.transact((tx) => tx.put(vclusterCollection, "demo", { ...record(), node: "c" }));
    [at("c").phase, at("a").phase] = ["Running", undefined];
    delete at("a").standby;
    await pass(3);
    expect(record().standby).toMatchObject({ of: "c", node: "a", inSync: true });
    expect(at("b").standbys).toEqual([]);
    told();
    await clusters.remove("demo", ctx);
    expect(told()).toEqual(["c DELETE /vclusters/{vcluster}", "a DELETE /vcluster-standbys/{vcluster}"]);
    expect(at("a").standbys).toEqual([]);
    expect(notes()).toEqual([]);
  });
});

describe("a virtual cluster whose node is lost", () => {
  test("goes on from its standby, says what may be lost, and the node that comes back gives way", async () => {
    const { pass, at, told, record, status, events, notes, decided } = await world();
    await pass(2);
    told();
    at("a").health = "offline";
    await pass(59);
    expect([told(), record().node]).toEqual([[], "a"]);
    await pass(4);
    expect(told()[0]).toBe("b POST /vcluster-standbys/{vcluster}/promote");
    expect(record()).toMatchObject({ node: "b", abandoned: ["a"], recovered: { from: "a", isDone: true } });
    expect(status()).toMatchObject({ node: "b", recovered: { from: "a", mayHaveLostSeconds: 0 } });
    expect(events.map(({ reason }) => reason)).toEqual(
      expect.arrayContaining(["VCRecovering", "VCRecovered"]) as string[],
    );
    expect(events.find(({ reason }) => reason === "VCRecovered")?.message).toContain(
      "nothing that was answered is lost",
    );
    await pass(2);
    expect(record().standby).toMatchObject({ node: "c", of: "b", inSync: true });
    expect(decided()).toEqual(["control-plane b", "standby c"]);
    expect(notes()).toHaveLength(1);
    told();
    at("a").health = "online";
    await pass(1);
    expect(told()).toEqual(["a DELETE /vclusters/{vcluster}"]);
    expect(record()).not.toHaveProperty("abandoned");
  });

  test("is deleted all the same, and what that node has goes when it is back", async () => {
    const { pass, at, told, record, records, clusters, asked, look } = await world();
    await pass(2);
    at("a").health = "offline";
    await pass(65);
    expect(record()).toMatchObject({ node: "b", abandoned: ["a"] });
    told();
    await clusters.remove("demo", ctx);
    expect(told()[0]).toBe("b DELETE /vclusters/{vcluster}");
    expect(records.collection(vclusterCollection).list()).toEqual([]);
    // To the node it would be the one that it has.
    const again = () => clusters.create({ name: "demo", namespace: undefined, spec: {} }, ctx);
    await expect(again()).rejects.toThrow(
      "was deleted while a node was away that still has something of it (a)",
    );
    await pass(2);
    told();
    at("a").health = "online";
    await look();
    expect(
      asked.map(({ node, route, params }) => [node, route.split(" ")[0], params["keepVolumes"]]),
    ).toEqual([["a", "DELETE", true]]);
    told();
    await pass(6);
    expect([told(), at("a").phase]).toEqual([[], undefined]);
    await again();
  });

  test("is looked after as before where its deletion is refused", async () => {
    const { pass, at, record, clusters, refusing } = await world();
    await pass(2);
    refusing("a");
    await expect(clusters.remove("demo", ctx)).rejects.toThrow("a says no");
    expect(record()).not.toHaveProperty("isLeaving");
    at("a").health = "offline";
    await pass(65);
    expect(record()).toMatchObject({ node: "b", recovered: { from: "a", isDone: true } });
  });

  test("is not waited for when its fence process is silent too, unless its agent will be back", async () => {
    const { pass, at, record, silent } = await world();
    await pass(2);
    at("a").health = "offline";
    silent(12_000);
    await pass(2);
    expect(record().node).toBe("a");
    silent(13_000, true);
    await pass(2);
    expect(record().node).toBe("a");
    silent(13_000);
    await pass(2);
    expect(record()).toMatchObject({ node: "b", recovered: { from: "a", isDone: true } });
  });

  test("stays where it is while its standby hears its store, however long the agent is away", async () => {
    const { pass, at, record } = await world();
    await pass(2);
    at("b").standbys = [{ name: "demo", tenant: "default", isFed: true }];
    at("a").health = "offline";
    await pass(600);
    expect(record().node).toBe("a");
    // And goes on from there when it does not any more.
    at("b").standbys = [{ name: "demo", tenant: "default", isFed: false }];
    await pass(59);
    expect(record().node).toBe("a");
    await pass(3);
    expect(record()).toMatchObject({ node: "b", recovered: { from: "a", isDone: true } });
  });

  test("with workers on several nodes takes those of the lost one along, and tells the others where it is", async () => {
    const { pass, at, told, record, records, asked } = await world(["a", "b", "c"]);
    const nodes = ["a", "b", "c"].map((node, index) => ({ node, address: `192.0.2.${index + 1}` }));
    const spread = { network: 2048, nodes };
    await records.transact((tx) => tx.put(vclusterCollection, "demo", { ...record(), spread }));
    await pass(3);
    expect(record().standby).toMatchObject({ node: "b", of: "a", inSync: true });
    expect(
      asked.find(({ route }) => route.startsWith("PUT /gpve/nodes/{node}/vcluster-standbys"))?.params,
    ).toMatchObject({
      network: 2048,
    });
    at("a").health = "offline";
    at("c").health = "offline";
    told();
    await pass(63);
    const promote = asked.find(({ route }) => route.endsWith("/promote"))?.params;
    expect(promote).toMatchObject({ network: 2048, overlay: { at: 1, home: 1 } });
    expect(record()).toMatchObject({ node: "b", recovered: { isDone: true, untold: ["c"] } });
    expect(record().spread?.nodes.map(({ node }) => node)).toEqual(["b", "b", "c"]);
    told();
    at("c").health = "online";
    await pass(1);
    expect(asked.find(({ node }) => node === "c")?.params).toMatchObject({ overlay: { at: 2, home: 1 } });
    expect(told()[0]).toBe("c PUT /vclusters/{vcluster}/overlay");
    expect(record().recovered).not.toHaveProperty("untold");
  });

  test("tells nodes with workers at once, and not when its own workers are there", async () => {
    const { pass, at, asked, record, records, promoting } = await world(["a", "b", "c"]);
    const nodes = ["a", "b", "c"].map((node, index) => ({ node, address: `192.0.2.${index + 1}` }));
    await records.transact((tx) =>
      tx.put(vclusterCollection, "demo", { ...record(), spread: { network: 2048, nodes } }),
    );
    await pass(3);
    const { promise, resolve } = Promise.withResolvers<void>();
    promoting(promise);
    at("a").health = "offline";
    const passing = pass(63);
    const soon = { timeout: 30_000 };
    await expect.poll(() => record().recovered, soon).toBeDefined();
    await expect.poll(() => record().recovered, soon).not.toHaveProperty("untold");
    expect(asked.find(({ node }) => node === "c")?.params).toMatchObject({ overlay: { at: 2, home: 1 } });
    expect(record().recovered).not.toHaveProperty("isDone");
    resolve();
    await passing;
    expect(record().recovered).toMatchObject({ isDone: true });
    expect(record().recovered).not.toHaveProperty("untold");
  });

  test("whose network its first node chose has its standby where that is known", async () => {
    const { pass, record, records } = await world(["a", "b", "c"]);
    const nodes = ["a", "c"].map((node, index) => ({ node, address: `192.0.2.${index + 1}` }));
    const spread = { network: 3, nodes, dealt: 1 };
    await records.transact((tx) => tx.put(vclusterCollection, "demo", { ...record(), spread }));
    await pass(3);
    expect(record().standby).toMatchObject({ node: "c", inSync: true });
  });

  test("of tier Starter says that the last second may be lost", async () => {
    const { pass, at, status, events } = await world(["a", "b"], "Starter");
    await pass(2);
    at("a").health = "offline";
    await pass(62);
    expect(status()).toMatchObject({ recovered: { mayHaveLostSeconds: 1 } });
    expect(events.at(-1)?.message).toContain("in the last 1 s before may be lost");
  });

  test("waits for it where its standby has not everything, or was never made", async () => {
    const { pass, at, record, told } = await world(["a", "b"]);
    await pass(2);
    const { generation = 0 } = record().standby ?? {};
    at("b").health = "offline";
    at("a").standby = { generation, isJoined: true, isConnected: false, revision: 9, confirmed: 8 };
    await pass(7);
    at("a").health = "offline";
    at("b").health = "online";
    told();
    await pass(90);
    expect([told(), record().node]).toEqual([[], "a"]);
  });

  test("is told to go on until it does, and asked by the servers' address all the time", async () => {
    const { pass, at, record, told, clusters, asked } = await world();
    await pass(2);
    told();
    await clusters.kubeconfig("demo", 1, ctx).catch(() => undefined);
    expect(asked[0]?.params).toMatchObject({ server: "https://gpve.example.org:8006" });
    at("a").health = "offline";
    await pass(61);
    at("b").health = "offline";
    await pass(5);
    expect(record()).toMatchObject({ node: "b" });
    at("b").health = "online";
    await pass(7);
    expect(record().recovered).toMatchObject({ isDone: true });
  });
});
