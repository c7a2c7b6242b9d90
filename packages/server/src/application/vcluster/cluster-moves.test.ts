// A move as the server leads it: what each node is told, in which order, and what becomes of it when one fails.
import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { moveCollection } from "@gpve/domain/guest/guest-move.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer } from "../../testing/quota-world.ts";
import { nodeRecords } from "../node/collections.ts";
import { ClusterMoves } from "./cluster-moves.ts";
import { joinedNode } from "../../testing/joined-node.ts";

const ctx = { actor: { authid: "joe@pve" }, requestId: "r" } as unknown as RequestContext;
const base = { name: "demo", tenant: "default", node: "a", spec: readVirtualClusterSpec({}), madeBy: "r" };
const ends = ["a", "b", "c"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` }));

async function world(record: VirtualClusterRecord = base, workers = 0) {
  const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), {
    owner: "s1",
    clock: systemClock,
    node: { node: "a", call: () => Promise.reject(new Error("not asked")) },
  });
  const { records } = server;
  await records.transact((tx) => {
    tx.put(vclusterCollection, "demo", record);
    for (const { node, address } of ends)
      tx.put(nodeRecords, node, joinedNode(node, { address, certFingerprint: `AA:${node}` }));
  });
  const offline = new Set<string>();
  const told: string[] = [];
  const params: Record<string, Record<string, unknown>> = {};
  /** "b take-over": that task fails; "b take-over lost": its node is gone from then on. */
  const failing = new Set<string>();
  const place = { phase: "Running", version: "1.36.4", network: 3, workers };
  const { engine, logs } = testEngine();
  const alone: string[] = [];
  const moves = new ClusterMoves({
    records,
    standDown: async (of) => void alone.push(of),
    clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 5), signal) },
    board: {
      get: (node) => {
        const end = ends.find((each) => each.node === node);
        const health = offline.has(node) ? "offline" : "online";
        return end === undefined ? undefined : ({ ...end, health } as NodeView);
      },
    },
    vclusters: {
      require: (name) => {
        const found = records.collection(vclusterCollection).get(name)?.value;
        if (found === undefined) throw new AppError("object.not_found", `there is no '${name}'`);
        return found;
      },
    },
    engine,
    calls: {
      call: async (node: string, route: string, asked: object) => {
        const verb = route.slice(route.lastIndexOf("/") + 1);
        if (offline.has(node)) throw new AppError("node.unavailable", `${node} is away`);
        if (verb === "place") return { data: place } as never;
        const owner = records.collection(vclusterCollection).get("demo")?.value.node;
        told.push(`${node} ${verb} (${owner}'s)`);
        params[`${node} ${verb}`] = asked as Record<string, unknown>;
        if (failing.has(`${node} ${verb} lost`)) offline.add(node);
        return { data: `${node} ${verb}` } as never;
      },
    },
    taskEnd: async (upid, signal) => {
      if (offline.has(upid.split(" ", 1)[0] ?? ""))
        await new Promise((_ok, fail) => signal.addEventListener("abort", () => fail(new Error("stopped"))));
      if (failing.has(upid)) throw new AppError("operation.failed", `${upid} failed`);
    },
  });
  engine.register(moves.operation());
  await engine.start();
  const migrate = async (to: string): Promise<string> => {
    const { state, error = "" } = await engine.wait(await moves.begin("demo", to, ctx, `${Math.random()}`));
    return state === "done" ? "done" : `${state}: ${error}`;
  };
  const now = () => records.collection(vclusterCollection).get("demo")?.value;
  const notes = () => records.collection(moveCollection).list();
  return {
    migrate,
    moves,
    told,
    params,
    failing,
    offline,
    now,
    notes,
    place,
    logs,
    alone,
    close: () => server.close(),
  };
}

describe("a move of a control plane", () => {
  test("is handed over between its end here and its start there", async () => {
    const { migrate, told, params, now, notes, alone, close } = await world();
    expect(await migrate("b")).toBe("done");
    expect(alone).toEqual(["demo"]);
    expect(told).toEqual(["b arrive (a's)", "a depart (a's)", "b take-over (b's)", "a let-go (b's)"]);
    expect(now()).toEqual({ ...base, node: "b" });
    expect(notes()).toEqual([]);
    expect(params["b arrive"]).toMatchObject({ version: "1.36.4", vcluster: "demo" });
    expect(params["b arrive"]).not.toHaveProperty("network");
    await close();
  });

  test("is refused while workers have devices of their node, and nothing is told to anybody", async () => {
    const devices = { "example.com/gpu": 1 };
    const of = (count: number) => readVirtualClusterSpec({ workerNodes: { count, devices } });
    const bound = await world({ ...base, spec: of(1) }, 1);
    await expect(bound.migrate("b")).rejects.toThrow("its workers have devices of their node");
    expect(bound.told).toEqual([]);
    await bound.close();
    const free = await world({ ...base, spec: of(0) });
    expect(await free.migrate("b")).toBe("done");
    await free.close();
  });

  test("leaves workers on one network with it, and undoes that when it comes back to them", async () => {
    const { migrate, told, params, now, place, close } = await world(base, 2);
    expect(await migrate("b")).toBe("done");
    const nodes = ends.slice(0, 2);
    expect(now()).toMatchObject({ node: "b", spread: { network: 3, nodes, home: 1, dealt: 1 } });
    expect(params["b arrive"]).toMatchObject({ network: 3, overlay: { nodes, at: 1, home: 1, dealt: 1 } });
    expect(params["a let-go"]).toMatchObject({ overlay: { at: 0, home: 1 } });
    place.workers = 0;
    expect(await migrate("c")).toBe("done");
    expect(now()?.spread).toMatchObject({ nodes: ends, home: 2 });
    expect(told).toContain("a overlay (c's)");
    expect(params["b let-go"]).toMatchObject({ overlay: { at: 1 } });
    expect(await migrate("a")).toBe("done");
    expect(now()).toMatchObject({ node: "a", spread: { nodes: [ends[0]], home: 0, dealt: 1 } });
    expect(params["a arrive"]).toMatchObject({ network: 3 });
    expect(params["a arrive"]).not.toHaveProperty("overlay");
    expect(params["c let-go"]).not.toHaveProperty("overlay");
    await close();
  });

  test("is taken back when the other node does not start it", async () => {
    const { migrate, told, failing, now, notes, close } = await world();
    failing.add("b take-over");
    expect(await migrate("b")).toContain("b take-over failed");
    expect(told).toEqual([
      "b arrive (a's)",
      "a depart (a's)",
      "b take-over (b's)",
      "b turn-away (b's)",
      "a stay (a's)",
      "b turn-away (a's)",
    ]);
    expect([now(), notes()]).toEqual([base, []]);
    await close();
  });

  test("is taken back when it cannot be sent, or nobody can take it", async () => {
    const { migrate, told, failing, now, place, close } = await world();
    failing.add("a depart");
    expect(await migrate("b")).toContain("a depart failed");
    expect(told.slice(1)).toEqual(["a depart (a's)", "a stay (a's)", "b turn-away (a's)"]);
    failing.add("b arrive");
    expect(await migrate("b")).toContain("b arrive failed");
    place.phase = "Stopped";
    expect(await migrate("b")).toContain("is Stopped");
    expect(now()).toEqual(base);
    await close();
  });

  test("has one owner when the other node is lost while it starts it", async () => {
    const { migrate, told, failing, now, close } = await world();
    failing.add("b take-over lost");
    expect(await migrate("b")).toContain("node 'b' is not online");
    expect(told).not.toContain("a stay (a's)");
    expect(now()).toMatchObject({ node: "b", formerly: "a" });
    await close();
  });

  test("is done when the node that it left does not hear of it, and says so", async () => {
    const { migrate, failing, now, notes, close } = await world();
    failing.add("a let-go");
    expect(await migrate("b")).toBe("done");
    expect(now()).toEqual({ ...base, node: "b", formerly: "a" });
    expect(notes()).toEqual([]);
    await close();
  });

  test("is refused where it makes no sense", async () => {
    const { moves, offline, close } = await world();
    await expect(moves.begin("demo", "a", ctx, "1")).rejects.toThrow("is on node 'a' already");
    offline.add("b");
    await expect(moves.begin("demo", "b", ctx, "2")).rejects.toThrow("node 'b' is not online");
    await expect(moves.begin("demo", "z", ctx, "4")).rejects.toMatchObject({
      message: expect.stringContaining("there is no node 'z'"),
      errors: { target: "is no node" },
    });
    await expect(moves.begin("none", "b", ctx, "3")).rejects.toThrow("there is no 'none'");
    await close();
  });

  test("takes what asks an OpenID issuer to a node only for who may have that node do so", async () => {
    const oidc = { issuerUrl: "https://192.168.1.1:9443", clientId: "kube" };
    const { moves, told, close } = await world({
      ...base,
      spec: readVirtualClusterSpec({ controlPlane: { oidc } }),
    });
    const require = (path: string, privileges: readonly string[]): void => {
      throw new AppError("access.denied", `Permission check failed (${path}, ${privileges.join()})`);
    };
    const tenant = { ...ctx, access: { has: () => false, require } } as unknown as RequestContext;
    await expect(moves.begin("demo", "b", tenant, "1")).rejects.toThrow(
      "Permission check failed (/nodes/b, Sys.AccessNetwork)",
    );
    expect(told).toEqual([]);
    await close();
  });
});
