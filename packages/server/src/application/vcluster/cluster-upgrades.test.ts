// An upgrade of several nodes as the server leads it: who goes after whom, and the way back where one cannot.
import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer } from "../../testing/quota-world.ts";
import { ClusterUpgrades } from "./cluster-upgrades.ts";

const ctx = { actor: { authid: "joe@pve" }, requestId: "r" } as unknown as RequestContext;
const ends = ["a", "b", "c"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` }));
const wide: VirtualClusterRecord = {
  name: "demo",
  tenant: "default",
  node: "b",
  spec: readVirtualClusterSpec({ workerNodes: { count: 2 }, scheduling: { spread: true } }),
  spread: { network: 2048, nodes: ends.slice(0, 2), home: 1 },
  madeBy: "r",
};
const trio: VirtualClusterRecord = {
  ...wide,
  node: "a",
  spec: readVirtualClusterSpec({ controlPlane: { tier: "Enterprise" }, workerNodes: { count: 3 } }),
  spread: { network: 2048, nodes: ends.map((end, slot) => ({ ...end, slot })) },
};

async function world(record: VirtualClusterRecord) {
  const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), {
    owner: "s1",
    clock: systemClock,
    node: { node: "a", call: () => Promise.reject(new Error("not asked")) },
  });
  const { records } = server;
  await records.transact((tx) => tx.put(vclusterCollection, "demo", record));
  const offline = new Set<string>();
  const view = (node: string): NodeView =>
    ({
      node,
      health: offline.has(node) ? "offline" : "online",
      report: { vclusters: [{ name: "demo", phase: "Running", power: "hot" }] },
    }) as unknown as NodeView;
  const board: NodeBoard = {
    list: () => ends.map(({ node }) => view(node)),
    get: view,
    generation: () => 1,
  };
  const told: string[] = [];
  const seen = new Set<string>();
  /** "b workers 1.36.4": that task fails; with " lost": its node is gone from then on. */
  const failing = new Set<string>();
  const { engine, logs } = testEngine();
  const alone: string[] = [];
  const upgrades = new ClusterUpgrades({
    records,
    standDown: async (of) => void alone.push(of),
    board,
    clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 5), signal) },
    engine,
    calls: {
      call: async (node: string, route: string, asked: object) => {
        if (offline.has(node)) throw new AppError("node.unavailable", `${node} is away`);
        if (route.endsWith("/upgrade-path")) return { data: { from: "1.35.6", to: "1.36.4" } } as never;
        const { part, version, requestId } = asked as {
          part: { only: string; from: string };
          version: string;
          requestId: string;
        };
        expect(seen.has(requestId)).toBe(false);
        seen.add(requestId);
        const what = `${node} ${part.only} ${version}`;
        told.push(what);
        if (failing.has(`${what} lost`)) offline.add(node);
        return { data: what } as never;
      },
    },
    taskEnd: async (upid, signal) => {
      if (offline.has(upid.split(" ", 1)[0] ?? ""))
        await new Promise((_ok, fail) => signal.addEventListener("abort", () => fail(new Error("stopped"))));
      if (failing.has(upid)) throw new AppError("operation.failed", "its kubelet does not get ready");
    },
  });
  engine.register(upgrades.operation());
  await engine.start();
  const now = () => records.collection(vclusterCollection).get("demo")?.value;
  const upgrade = async (): Promise<string> => {
    const asked = { version: "1.36", drain: false };
    const { state, error = "" } = await engine.wait(await upgrades.begin(now() ?? wide, asked, ctx, "r1"));
    return state === "done" ? "done" : `${state}: ${error}`;
  };
  return { upgrade, told, failing, offline, now, logs, alone, close: () => server.close() };
}

describe("an upgrade of a cluster on several nodes", () => {
  test("is of its control plane, then of the workers of one node after the other", async () => {
    const { upgrade, told, now, alone, close } = await world(wide);
    expect(await upgrade()).toBe("done");
    expect(alone).toEqual(["demo"]);
    expect(told).toEqual(["b control plane 1.36.4", "b workers 1.36.4", "a workers 1.36.4"]);
    expect(now()?.spec.kubernetesVersion).toBe("1.36.4");
    await close();
  });

  test("is of all replicas before any worker", async () => {
    const { upgrade, told, close } = await world(trio);
    expect(await upgrade()).toBe("done");
    expect(told).toEqual([
      ...["a", "b", "c"].map((node) => `${node} control plane 1.36.4`),
      ...["a", "b", "c"].map((node) => `${node} workers 1.36.4`),
    ]);
    await close();
  });

  test("that fails on one returns on those before it, in the opposite order", async () => {
    const { upgrade, told, failing, now, close } = await world(trio);
    failing.add("b workers 1.36.4");
    expect(await upgrade()).toMatch(/^failed: node b, workers to 1\.36\.4: its kubelet does not get ready/);
    expect(told.slice(4)).toEqual([
      "b workers 1.36.4",
      "a workers 1.35.6",
      "c control plane 1.35.6",
      "b control plane 1.35.6",
      "a control plane 1.35.6",
    ]);
    expect(now()?.spec.kubernetesVersion).toBe(trio.spec.kubernetesVersion);
    await close();
  });

  test("waits for nobody who is lost, and says so", async () => {
    const { upgrade, told, failing, close } = await world(wide);
    failing.add("a workers 1.36.4 lost");
    expect(await upgrade()).toContain("node 'a' is not online");
    expect(told.slice(3)).toEqual(["b workers 1.35.6", "b control plane 1.35.6"]);
    await close();
  });

  test("does not begin while somebody is away who would be left behind", async () => {
    const { upgrade, told, offline, close } = await world(wide);
    offline.add("a");
    await expect(upgrade()).rejects.toThrow("are away: a");
    const three = await world(trio);
    three.offline.add("c");
    await expect(three.upgrade()).rejects.toThrow("c is offline");
    expect([told, three.told]).toEqual([[], []]);
    await Promise.all([close(), three.close()]);
  });
});
