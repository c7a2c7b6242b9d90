// A move of a worker as the server leads it: what each node is told, and what becomes of it when one fails.
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
import { WorkerMoves } from "./worker-moves.ts";

const ctx = { actor: { authid: "joe@pve" }, requestId: "r" } as unknown as RequestContext;
const ends = ["a", "b", "c"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` }));
const spec = readVirtualClusterSpec({ workerNodes: { count: 2 } });
const alone: VirtualClusterRecord = { name: "demo", tenant: "default", node: "a", spec, madeBy: "r" };
const wide: VirtualClusterRecord = { ...alone, spread: { network: 2048, nodes: ends.slice(0, 2) } };

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
      ...ends.find((each) => each.node === node),
      health: offline.has(node) || !ends.some((each) => each.node === node) ? "offline" : "online",
      report: { vclusters: [{ name: "demo", phase: "Running", power: "hot" }] },
    }) as unknown as NodeView;
  const board: NodeBoard = { list: () => ends.map(({ node }) => view(node)), get: view, generation: () => 1 };
  const told: string[] = [];
  const failing = new Set<string>();
  const { engine } = testEngine();
  const now = (): VirtualClusterRecord => {
    const found = records.collection(vclusterCollection).get("demo")?.value;
    if (found === undefined) throw new AppError("object.not_found", "there is no 'demo'");
    return found;
  };
  const moves = new WorkerMoves({
    records,
    board,
    engine,
    clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 5), signal) },
    vclusters: { require: now },
    calls: {
      call: async (node: string, route: string, asked: object) => {
        const verb = route.replace("/gpve/nodes/{node}/vclusters", "").replace("/{vcluster}", "");
        if (verb === "GET /place")
          return { data: { phase: "Running", version: "1.36.4", network: 7, workers: 2 } } as never;
        if (verb === "GET /authority")
          return { data: { version: "1.36.4", secrets: { "ca.key": "K" } } } as never;
        const { overlay, bring } = asked as {
          overlay?: { at: number; nodes: object[]; moved?: object[] };
          bring?: boolean;
        };
        const about =
          overlay === undefined
            ? ""
            : ` ${overlay.at}/${overlay.nodes.length}${overlay.moved === undefined ? "" : " moved"}`;
        const what = `${node} ${verb.trim()}${about}${bring === true ? " bring" : ""}`;
        told.push(what);
        return { data: what } as never;
      },
    },
    taskEnd: async (upid) => {
      if (failing.has(upid)) throw new AppError("operation.failed", `${upid} failed`);
    },
  });
  engine.register(moves.operation());
  await engine.start();
  const move = async (worker: string, target: string): Promise<string> => {
    const upid = await moves.begin("demo", { worker, target }, ctx, `${Math.random()}`);
    const { state, error = "" } = await engine.wait(upid);
    return state === "done" ? "done" : `${state}: ${error}`;
  };
  return { move, told, failing, offline, now, close: () => server.close() };
}

describe("a move of a worker", () => {
  test("makes the other node one network with its own, and leaves one before it comes to the other", async () => {
    const { move, told, now, close } = await world(alone);
    expect(await move("worker-2", "b")).toBe("done");
    expect(told).toEqual([
      "a PUT /overlay 0/2",
      "b POST  1/2".replace("  ", " "),
      "a POST /worker-leave",
      "a PUT /overlay 0/2 moved",
      "b PUT /overlay 1/2 moved bring",
    ]);
    expect(now().spread).toEqual({
      network: 7,
      nodes: ends.slice(0, 2),
      dealt: 1,
      moved: [{ slot: 1, node: "b" }],
    });
    // And back: the other node has nothing of it any more.
    told.length = 0;
    expect(await move("worker-2", "a")).toBe("done");
    expect(told).toEqual([
      "b POST /worker-leave",
      "b PUT /overlay 1/2",
      "a PUT /overlay 0/2 bring",
      "b DELETE",
      "a PUT /overlay",
    ]);
    expect(now()).not.toHaveProperty("spread");
    await close();
  });

  test("between nodes that have workers of it tells all of them", async () => {
    const { move, told, now, close } = await world(wide);
    expect(await move("worker-1", "b")).toBe("done");
    expect(told).toEqual([
      "a POST /worker-leave",
      "a PUT /overlay 0/2 moved",
      "b PUT /overlay 1/2 moved bring",
    ]);
    expect(now().spread?.moved).toEqual([{ slot: 0, node: "b" }]);
    await close();
  });

  test("that does not come there is brought back where it was", async () => {
    const { move, told, failing, now, close } = await world(alone);
    failing.add("b PUT /overlay 1/2 moved bring");
    expect(await move("worker-1", "b")).toContain("failed");
    expect(told.slice(5)).toEqual([
      "b POST /worker-leave",
      "a PUT /overlay 0/2",
      "b PUT /overlay 1/2",
      "a PUT /overlay 0/2 bring",
      "b DELETE",
      "a PUT /overlay",
    ]);
    expect(now()).not.toHaveProperty("spread");
    await close();
  });

  test("is refused where it cannot be, with the reason", async () => {
    const { move, offline, told, close } = await world(wide);
    await expect(move("worker-3", "b")).rejects.toThrow("has no worker 'worker-3'");
    await expect(move("worker-1", "a")).rejects.toThrow("is on node 'a' already");
    offline.add("c");
    await expect(move("worker-1", "c")).rejects.toThrow("'c' is not online");
    expect(told).toEqual([]);
    await close();
    const machine = readVirtualClusterSpec({ isolationLevel: "L3", workerNodes: { count: 1 } });
    const machines = await world({ ...alone, spec: machine });
    await expect(machines.move("worker-1", "b")).rejects.toThrow("level L3");
    await machines.close();
    const equipped = readVirtualClusterSpec({
      workerNodes: { count: 1, devices: { "example.com/gpu": 1 } },
    });
    const bound = await world({ ...alone, spec: equipped });
    await expect(bound.move("worker-1", "b")).rejects.toThrow("it has devices of its node");
    await bound.close();
    const nodes = ends.map((end, slot) => ({ ...end, slot })).slice(0, 2);
    const trio = await world({ ...wide, spread: { network: 2048, nodes } });
    await expect(trio.move("worker-1", "c")).rejects.toThrow("where these are: a, b");
    await trio.close();
  });
});
