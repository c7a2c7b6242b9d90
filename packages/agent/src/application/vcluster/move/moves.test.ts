// Two nodes and a control plane that goes from the one to the other, led as a server leads them.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { ClusterRotation } from "@gpve/domain/vcluster/rotate/authorities.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { ClusterKeeper } from "@gpve/domain/vcluster/move/cluster-moves.ts";
import type { ClusterOverlay } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { FakeClusterHost } from "../../../testing/fake-cluster-host.ts";
import { FileClusterLuggage } from "../../../infrastructure/vcluster/move/file-cluster-luggage.ts";
import { FakeVnodeHost } from "../../../testing/fake-vnode-host.ts";
import { ClusterPhases } from "../cluster-phases.ts";
import { clusterMoveOperations } from "./move-operations.ts";
import { clusterMoveRoutes } from "./move-routes.ts";

const end = (node: string) => ({ node, address: "", port: 0, fingerprints: [] });
const move: GuestMove = {
  vmid: 0,
  id: "m",
  from: end("a"),
  to: end("b"),
  at: 0,
  purpose: "vcluster",
  vcluster: "demo",
};
const ctx = {
  actor: { authid: "root@pam" },
  signal: new AbortController().signal,
} as unknown as RequestContext;
const running: KeptCluster = {
  name: "demo",
  tenant: "shop",
  spec: readVirtualClusterSpec({}),
  version: "1.36.4",
  network: 3,
  phase: "Running",
  isWanted: true,
};
const nodes = [
  { node: "a", address: "192.0.2.1" },
  { node: "b", address: "192.0.2.2" },
];

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-moves-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function node(
  name: string,
  other: () => ClusterKeeper | undefined,
  allowed: GuestMove | undefined = move,
) {
  const host = new FakeClusterHost();
  const vnodes = new FakeVnodeHost();
  const luggage = new FileClusterLuggage({ folder: join(folder, name), closed: async () => undefined });
  const brought: string[] = [];
  const left: string[] = [];
  const rotations = new Map<string, ClusterRotation>();
  const { engine } = testEngine();
  const {
    arrive,
    letGo,
    join: joined,
    workerLeave,
    others,
  } = clusterMoveOperations({
    host,
    vnodes,
    workers: {
      bring: async (cluster) => void brought.push(`workers of ${cluster.overlay?.nodes.length ?? 1} nodes`),
      drop: async (cluster, vnode) => {
        await vnodes.remove(cluster, vnode);
        brought.push(`no ${vnode.name}`);
      },
    },
    luggage,
    phases: new ClusterPhases(host, () => undefined),
    peers: {
      clusterLine: async () => {
        const there = other();
        if (there === undefined) throw new Error("cannot reach the agent");
        const writer = await there.begin(move);
        return {
          send: (file) => writer.take(file),
          finish: () => writer.finish(),
          close: () => undefined,
        };
      },
    },
    findMove: async () => allowed,
    ensureComponent: async (name, version) => void brought.push(`${name} ${version}`),
    noteLeft: (cluster) => void left.push(cluster.name),
  });
  engine.register(arrive);
  engine.register(letGo);
  engine.register(joined);
  engine.register(workerLeave);
  for (const operation of others) engine.register(operation);
  await engine.start();
  const routes = clusterMoveRoutes({
    host,
    vnodes,
    engine,
    authorities: { rotation: (cluster) => rotations.get(cluster) },
    awake: async () => undefined,
  });
  let count = 0;
  const run = async (verb: string, more: object = {}): Promise<string> => {
    const method = verb === "overlay" ? "PUT" : "POST";
    const handler =
      routes[`${method} /gpve/nodes/{node}/vclusters/{vcluster}/${verb}` as keyof typeof routes];
    const asked = {
      node: "x",
      vcluster: "demo",
      tenant: "shop",
      moveId: "m",
      requestId: `r${++count}`,
      ...more,
    };
    const upid = await (handler as (asked: object, ctx: RequestContext) => Promise<string>)(asked, ctx);
    const { state, error = "" } = await engine.wait(upid);
    return state === "done" ? "done" : `${state}: ${error}`;
  };
  const place = () =>
    routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/place"](
      { node: "x", vcluster: "demo", tenant: "shop" },
      ctx,
    );
  return { host, vnodes, luggage, brought, left, rotations, run, place };
}

async function two(allowed?: GuestMove) {
  const b = await node("b", () => undefined);
  const a = await node("a", () => b.luggage, allowed);
  mkdirSync(join(folder, "a/clusters/demo/pki"), { recursive: true });
  writeFileSync(join(folder, "a/clusters/demo/pki/ca.key"), "KEY");
  a.host.save(running);
  a.host.running.add("demo");
  return { a, b };
}

const announced = { spec: {}, version: "1.36.4" };

describe("a control plane on its way", () => {
  test("runs there afterwards, and nothing of it is left here", async () => {
    const { a, b } = await two();
    expect(await a.place()).toEqual({ phase: "Running", version: "1.36.4", network: 3, workers: 0 });
    expect(await b.run("arrive", announced)).toBe("done");
    expect(b.brought).toEqual(["kubernetes 1.36.4"]);
    expect(await a.run("depart")).toBe("done");
    expect([a.host.running.size, a.host.plugged.size, a.host.get("demo")]).toEqual([
      0,
      0,
      expect.objectContaining({ phase: "Migrating", isSwitching: true }),
    ]);
    expect(b.host.get("demo")).toBeUndefined();
    expect(await b.run("take-over")).toBe("done");
    expect(readFileSync(join(folder, "b/clusters/demo/pki/ca.key"), "utf8")).toBe("KEY");
    expect(b.host.get("demo")).toMatchObject({ phase: "Running", network: 7, isWanted: true });
    expect(b.host.get("demo")).not.toHaveProperty("isSwitching");
    expect(await a.run("let-go")).toBe("done");
    expect([a.host.get("demo"), a.host.gone, a.left]).toEqual([undefined, ["all of demo"], ["demo"]]);
    // Told again, as after a crash of the server that leads.
    expect([await b.run("take-over"), await a.run("let-go"), await b.run("turn-away")]).toEqual([
      "done",
      "done",
      "done",
    ]);
    expect(b.host.get("demo")?.phase).toBe("Running");
  });

  test("does not leave its workers while they trust an authority that is to go", async () => {
    const { a } = await two();
    a.rotations.set("demo", { until: 1, isWhole: true });
    expect(await a.place()).toMatchObject({ workers: 0 });
    a.vnodes.save("demo", { slot: 0, name: "worker-1", size: { cpus: 1, memoryBytes: 1 }, isWanted: true });
    await expect((async () => a.place())()).rejects.toThrow("still trusts its old authority");
  });

  test("leaves workers here, which look for it anew", async () => {
    const { a, b } = await two();
    a.vnodes.save("demo", { slot: 0, name: "worker-1", size: { cpus: 1, memoryBytes: 1 }, isWanted: true });
    const overlay = (at: number): ClusterOverlay => ({ nodes, at, home: 1, dealt: 1 });
    expect(await b.run("arrive", { ...announced, network: 3, overlay: overlay(1) })).toBe("done");
    await a.run("depart");
    await b.run("take-over");
    expect(b.host.get("demo")).toMatchObject({ phase: "Running", overlay: overlay(1) });
    expect(await a.run("let-go", { overlay: overlay(0) })).toBe("done");
    expect(a.host.get("demo")).toMatchObject({ phase: "Running", overlay: overlay(0) });
    expect(a.host.gone).toEqual(["control plane of demo", "address of demo for 0"]);
    expect(a.left).toEqual([]);
    expect(await a.run("let-go", { overlay: overlay(0) })).toBe("done");
    // A third node is told where it is.
    expect(await a.run("overlay", { overlay: { ...overlay(0), home: 0 } })).toBe("done");
    expect(a.host.get("demo")?.overlay?.home).toBe(0);
  });

  test("comes to a node that has workers of it, and leaves them alone when it is turned away", async () => {
    const { a, b } = await two();
    const before = { ...running, network: 2048, overlay: { nodes, at: 1 } };
    b.host.save(before);
    await b.run("arrive", { ...announced, network: 2048, overlay: { nodes, at: 1, home: 1, dealt: 2 } });
    await a.run("depart");
    b.host.broken.add("start");
    expect(await b.run("take-over")).toContain("start is broken");
    expect(b.host.get("demo")?.phase).toBe("Migrating");
    expect(await b.run("turn-away")).toBe("done");
    expect(b.host.get("demo")).toEqual(before);
    expect(b.host.gone).toEqual(["control plane of demo"]);
    expect(await a.run("stay")).toBe("done");
    expect([a.host.get("demo")?.phase, a.host.running.has("demo")]).toEqual(["Running", true]);
    expect(await a.run("stay")).toBe("done");
  });

  test("is turned away wholly where nothing of it was before", async () => {
    const { a, b } = await two();
    await b.run("arrive", announced);
    await a.run("depart");
    b.host.broken.add("furnish");
    expect(await b.run("take-over")).toContain("furnish is broken");
    expect(await b.run("turn-away")).toBe("done");
    expect([b.host.get("demo"), b.host.gone, b.luggage.arrival("demo")]).toEqual([
      undefined,
      ["all of demo"],
      undefined,
    ]);
  });

  test("goes on here when it cannot be sent", async () => {
    const { a, b } = await two({ ...move, vcluster: "another" });
    await b.run("arrive", announced);
    expect(await a.run("depart")).toContain("no server has allowed virtual cluster 'demo' to move");
    expect([a.host.get("demo")?.phase, a.host.running.has("demo")]).toEqual(["Running", true]);
    expect(await b.run("take-over")).toContain("has not come to this node");
    expect(await a.run("let-go")).toContain("it has not left this node");
  });

  test("is Failed where it starts on neither", async () => {
    const { a, b } = await two();
    await b.run("arrive", announced);
    await a.run("depart");
    a.host.broken.add("start");
    expect(await a.run("stay")).toContain("start is broken");
    expect(a.host.get("demo")).toMatchObject({ phase: "Failed", message: "start is broken" });
  });

  test("is not taken where there is no place for it", async () => {
    const { b } = await two();
    const overlay = { nodes, at: 1, home: 1, dealt: 1 };
    b.host.save({ ...running, name: "other" });
    await expect(b.run("arrive", { ...announced, network: 3, overlay })).rejects.toThrow(
      "is on this node that of 'other'",
    );
    b.host.broken.add("overlay");
    await expect(b.run("arrive", { ...announced, network: 4, overlay })).rejects.toThrow("VXLAN");
    b.host.save(running);
    await expect(b.run("arrive", announced)).rejects.toThrow("already");
    await expect(b.run("depart", { tenant: "else" })).rejects.toThrow("there is no virtual cluster");
  });

  test("of a worker alone has it leave here, where it has no volumes, and come there when it is told", async () => {
    const { a } = await two();
    const vnode = { slot: 0, name: "worker-1", size: running.spec.workerSize, isWanted: true };
    a.vnodes.save("demo", vnode);
    await a.vnodes.makeVolume(running, vnode, "pvc-1", 1);
    expect(await a.run("worker-leave", { worker: "worker-1" })).toContain("has 1 persistent volumes");
    await a.vnodes.removeVolume(running, vnode, "pvc-1");
    expect(await a.run("worker-leave", { worker: "worker-1" })).toBe("done");
    // Asked again when it has long left.
    expect(await a.run("worker-leave", { worker: "worker-1" })).toBe("done");
    expect(a.brought).toEqual(["no worker-1"]);
    const overlay = { nodes, at: 0, dealt: 1, moved: [{ slot: 0, node: "b" }] };
    expect(await a.run("overlay", { overlay, bring: true })).toBe("done");
    expect(a.host.get("demo")?.overlay).toEqual(overlay);
    expect(a.brought.at(-1)).toBe("workers of 2 nodes");
    expect(await a.run("overlay")).toBe("done");
    expect(a.host.get("demo")).not.toHaveProperty("overlay");
  });

  test("brings its etcd's version along", async () => {
    const { b } = await two();
    const spec = { controlPlane: { tier: "Performance" } };
    expect(await b.run("arrive", { spec, version: "1.36.4", etcdVersion: "3.6.8" })).toBe("done");
    expect(b.brought).toEqual(["kubernetes 1.36.4", "etcd 3.6.8"]);
  });
});
