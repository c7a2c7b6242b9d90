// A new authority for a cluster on several nodes as the server leads it: who knows it before whom.
import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer } from "../../testing/quota-world.ts";
import { ClusterRotations } from "./cluster-rotations.ts";
import { KeepRotations } from "./keep-rotations.ts";

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

function world(record: VirtualClusterRecord) {
  const offline = new Set<string>();
  const row = { name: "demo", phase: "Running", power: "hot", formerTrustedUntil: Infinity };
  const view = (node: string): NodeView =>
    ({
      node,
      health: offline.has(node) ? "offline" : "online",
      report: { vclusters: [row] },
    }) as unknown as NodeView;
  const board: NodeBoard = {
    list: () => ends.map(({ node }) => view(node)),
    get: view,
    generation: () => 1,
  };
  const told: string[] = [];
  const seen = new Set<string>();
  const failing = new Set<string>();
  let rotation: { until?: number; isWhole?: boolean } = {};
  const { engine, logs } = testEngine();
  const rotations = new ClusterRotations({
    board,
    clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 5), signal) },
    engine,
    calls: {
      call: async (node: string, route: string, asked: object) => {
        if (offline.has(node)) throw new AppError("node.unavailable", `${node} is away`);
        if (route.endsWith("/rotation")) return { data: rotation } as never;
        if (route.startsWith("GET")) {
          expect(node).toBe(record.node);
          return { data: { version: "1.36.4", secrets: { "ca.key": "K" } } } as never;
        }
        if (route.startsWith("PUT")) {
          expect(asked).toMatchObject({ secrets: { "ca.key": "K" } });
          told.push(`${node} keys`);
          return { data: null } as never;
        }
        const { part, requestId } = asked as { part: string; requestId: string };
        expect(seen.has(requestId)).toBe(false);
        seen.add(requestId);
        told.push(`${node} ${part}`);
        if (part === "begin") rotation = { until: 7 };
        if (part === "settle") rotation = { ...rotation, isWhole: true };
        if (part === "forget") rotation = {};
        return { data: `${node} ${part}` } as never;
      },
    },
    taskEnd: async (upid) => {
      if (failing.has(upid)) throw new AppError("operation.failed", "its kubelet does not get ready");
    },
  });
  for (const operation of rotations.operations()) engine.register(operation);
  const started = engine.start();
  let count = 0;
  const rotate = async (more: { graceHours?: number; dropOld?: boolean } = {}): Promise<string> => {
    await started;
    const { state, error = "" } = await engine.wait(await rotations.begin(record, more, ctx, `r${++count}`));
    return state === "done" ? "done" : `${state}: ${error}`;
  };
  return { rotate, rotations, told, failing, offline, row, board, logs, engine };
}

describe("a new authority of a cluster on several nodes", () => {
  test("is known by the control plane before any worker has what it signed, and is dropped in that order", async () => {
    const { rotate, told } = world(wide);
    expect(await rotate({ graceHours: 2 })).toBe("done");
    expect(told.splice(0)).toEqual([
      "b begin",
      "b control plane",
      "a keys",
      "b workers",
      "a workers",
      "b pods",
      "b settle",
      "a keys",
    ]);
    await expect(rotate()).rejects.toThrow("has a new authority already");
    expect(await rotate({ dropOld: true })).toBe("done");
    expect(told).toEqual(["b forget", "b control plane", "a keys", "b workers", "a workers", "b leavings"]);
    await expect(rotate({ dropOld: true })).rejects.toThrow("has one authority alone");
  });

  test("of three replicas is known by all of them first; members of their etcd turn before the old one goes", async () => {
    const { rotate, told } = world(trio);
    const control = ["a control plane", "b keys", "b control plane", "c keys", "c control plane"];
    const workers = ["a workers", "b workers", "c workers"];
    expect(await rotate()).toBe("done");
    expect(told.splice(0)).toEqual([
      "a begin",
      ...control,
      ...workers,
      "a pods",
      "a settle",
      "b keys",
      "c keys",
    ]);
    expect(await rotate({ dropOld: true })).toBe("done");
    expect(told).toEqual(["a turn", ...control, "a forget", ...control, ...workers, "a leavings"]);
  });

  test("that could not come to its end is gone on with, and the old one is not dropped before", async () => {
    const { rotate, told, failing } = world(wide);
    failing.add("a workers");
    expect(await rotate()).toBe("failed: node a, workers: its kubelet does not get ready");
    await expect(rotate({ dropOld: true })).rejects.toThrow("goes on with that");
    failing.clear();
    told.splice(0);
    expect(await rotate()).toBe("done");
    expect(told.slice(-2)).toEqual(["b settle", "a keys"]);
  });

  test("does not begin while somebody is away who would be left behind", async () => {
    const two = world(wide);
    two.offline.add("a");
    await expect(two.rotate()).rejects.toThrow("are away: a");
    const three = world(trio);
    three.offline.add("c");
    await expect(three.rotate()).rejects.toThrow("c is offline");
    expect([two.told, three.told]).toEqual([[], []]);
  });

  test("is alone when the time of the old one is over", async () => {
    const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), {
      owner: "s1",
      clock: systemClock,
      node: { node: "a", call: () => Promise.reject(new Error("not asked")) },
    });
    await server.records.transact((tx) => tx.put(vclusterCollection, "demo", wide));
    const { rotate, rotations, told, row, board, engine } = world(wide);
    await rotate();
    told.splice(0);
    const keeper = new KeepRotations({
      records: server.records,
      board,
      clock: systemClock,
      log: silentLogger,
      rotations: {
        begin: async (...asked) => {
          const upid = await rotations.begin(...asked);
          await engine.wait(upid);
          return upid;
        },
      },
      newRequestId: () => "drop",
    });
    const { signal } = new AbortController();
    await keeper.look(signal);
    expect(told).toEqual([]);
    row.formerTrustedUntil = systemClock.now() - 1;
    await keeper.look(signal);
    expect(told[0]).toBe("b forget");
    // Nothing to drop any more: that is said, and harms nobody.
    await keeper.look(signal);
    expect(told.filter((each) => each === "b forget")).toHaveLength(1);
    await server.close();
  });
});
