import { describe, expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { VnodePart } from "@gpve/domain/vcluster/vnode/vnode.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import { FakeClusterHost } from "../../../testing/fake-cluster-host.ts";
import { FakeClusterSaves } from "../../../testing/fake-cluster-saves.ts";
import { FakeVnodeHost, guardAnswer } from "../../../testing/fake-vnode-host.ts";
import { ClusterPhases } from "../cluster-phases.ts";
import { UPGRADE_CLUSTER, type UpgradeArgs, upgradeClusterOperation } from "./upgrade-operation.ts";

const spec = readVirtualClusterSpec({ workerNodes: { count: 2 } });
const demo: KeptCluster = {
  name: "demo",
  tenant: "shop",
  spec,
  version: "1.35.4",
  network: 7,
  phase: "Running",
  isWanted: true,
};
const args: UpgradeArgs = { name: "demo", version: "1.36.4", drain: false };

/** A cluster of which versions can be said that they do not work: "1.36.4", or "kubelet 1.36.4". */
class World {
  readonly host = new FakeClusterHost();
  readonly saves = new FakeClusterSaves();
  readonly bad = new Set<string>();
  readonly kubelets = new Map<string, string>();
  readonly held: string[] = [];
  readonly cordoned = new Set<string>();
  /** Whose pods were asked for, so that they leave. */
  readonly drained: string[] = [];
  /** The old version was left without what guards it. */
  unguarded = false;
  readonly deleted: string[] = [];
  readonly asked: string[] = [];
  #asked = 0;
  readonly phases: ClusterPhases;
  readonly vnodes: FakeVnodeHost;

  constructor() {
    this.host.save(demo);
    this.host.running.add("demo");
    this.saves.contents.set("demo", "written by 1.35");
    this.phases = new ClusterPhases(this.host, () => undefined);
    const { kubelets } = this;
    this.vnodes = new (class extends FakeVnodeHost {
      override async restartPart(
        cluster: KeptCluster,
        vnode: { name: string },
        part: VnodePart,
      ): Promise<void> {
        if (part === "kubelet") kubelets.set(vnode.name, cluster.version);
      }
    })();
    for (const slot of [0, 1]) {
      const name = `worker-${slot + 1}`;
      this.vnodes.save("demo", { slot, name, size: spec.workerSize, isWanted: true });
      kubelets.set(name, "1.35.4");
    }
    const start = this.host.start.bind(this.host);
    this.host.start = async (cluster, signal, say) => {
      if (this.bad.has(cluster.version)) throw new Error(`${cluster.version} does not start`);
      if (cluster.version === "1.36.4") this.saves.contents.set("demo", "written by 1.36");
      return start(cluster, signal, say);
    };
  }

  readonly api: ClusterApi = async (cluster, request) => {
    const { method, path, body } = request;
    this.asked.push(`${method} ${path}`);
    this.unguarded ||= method === "DELETE" && cluster.version === "1.35.4";
    if (method === "DELETE") this.deleted.push(path);
    const guarded = guardAnswer(request, cluster.version);
    if (guarded !== undefined) return guarded;
    if (path.startsWith("/apis/admissionregistration"))
      return { status: method === "POST" ? 201 : 404, body: {} };
    if (path === "/version") return { status: 200, body: { gitVersion: `v${cluster.version}` } };
    if (path.startsWith("/api/v1/pods?")) {
      this.drained.push(/nodeName(?:=|%3D)([a-z0-9-]+)/.exec(path)?.[1] ?? path);
      return { status: 200, body: { items: [] } };
    }
    const node = path.slice("/api/v1/nodes/".length);
    if (method === "PATCH") {
      const { unschedulable } = (body as { spec: { unschedulable: true | null } }).spec;
      if (unschedulable === null) this.cordoned.delete(node);
      else this.cordoned.add(node);
      return { status: 200, body: {} };
    }
    const version = this.kubelets.get(node) ?? "";
    const isReady = !this.bad.has(`kubelet ${version}`);
    const conditions = [{ type: "Ready", status: isReady ? "True" : "False" }];
    return { status: 200, body: { status: { conditions, nodeInfo: { kubeletVersion: `v${version}` } } } };
  };

  readonly ways = {
    hold: async (name: string): Promise<void> => void this.held.push(`hold ${name}`),
    unhold: (name: string): void => void this.held.push(`unhold ${name}`),
    tell: async (): Promise<void> => undefined,
  };

  readonly limits = { settleMs: 0, readyMs: 10, machineReadyMs: 10 };
  readonly ensureComponent = async (): Promise<void> => undefined;

  async upgrade(asked: UpgradeArgs = args) {
    const { engine } = testEngine();
    engine.register(upgradeClusterOperation(this));
    await engine.start();
    const { operation } = await engine.submit({
      type: UPGRADE_CLUSTER,
      resources: ["vcluster/demo"],
      args: asked,
      subject: "demo",
      actor: "joe@pve",
      requestId: `r${this.#asked++}`,
    });
    return engine.wait(operation.id);
  }
}

describe("an upgrade", () => {
  test("goes through control plane and workers, and clients wait meanwhile", async () => {
    const world = new World();
    expect((await world.upgrade()).state).toBe("done");
    expect(world.host.get("demo")).toMatchObject({
      phase: "Running",
      version: "1.36.4",
      spec: { kubernetesVersion: "1.36.4" },
    });
    expect(world.host.get("demo")?.isSwitching).toBeUndefined();
    expect([...world.kubelets.values()]).toEqual(["1.36.4", "1.36.4"]);
    expect(world.host.phases).toEqual(["Running", "Upgrading", "Running"]);
    expect(world.held).toEqual(["hold demo", "unhold demo"]);
    expect(world.cordoned.size).toBe(0);
    expect(world.saves.kept.get("demo/upgrade")).toBe("written by 1.35");
  });

  test("that has waited for another one is judged by what runs then, and takes nothing of that back", async () => {
    const world = new World();
    expect((await world.upgrade()).state).toBe("done");
    for (const [version, why] of [
      ["1.35.6", "versions do not go back"],
      ["1.36.4", "that is what it runs"],
    ] as const) {
      const { state, error } = await world.upgrade({ ...args, version });
      expect([state, error]).toEqual(["failed", expect.stringContaining(why)]);
    }
    expect(world.host.get("demo")).toMatchObject({ phase: "Running", version: "1.36.4" });
    expect([...world.kubelets.values()]).toEqual(["1.36.4", "1.36.4"]);
    expect(world.saves.kept.get("demo/upgrade")).toBe("written by 1.35");
  });

  test("has its guard stand before anything is waited for, as its workers are there", async () => {
    const world = new World();
    await world.upgrade();
    const guarded = world.asked.indexOf("POST /api/v1/namespaces/default/pods?dryRun=All");
    expect(guarded).toBeGreaterThanOrEqual(0);
    expect(world.asked.indexOf("GET /version")).toBeGreaterThan(guarded);
  });

  test("whose API server does not start returns by itself, store included", async () => {
    const world = new World();
    world.bad.add("1.36.4");
    const { state, error } = await world.upgrade();
    expect([state, error]).toEqual(["failed", "1.36.4 does not start"]);
    expect(world.host.get("demo")).toMatchObject({ phase: "Running", version: "1.35.4" });
    expect(world.saves.contents.get("demo")).toBe("written by 1.35");
    expect(world.held.at(-1)).toBe("unhold demo");
  });

  test("whose worker does not get ready returns workers first, then the control plane", async () => {
    const world = new World();
    world.bad.add("kubelet 1.36.4");
    const { state, error } = await world.upgrade();
    expect(state).toBe("failed");
    expect(error).toContain("worker-1 of demo is not Ready with kubelet 1.36.4");
    expect(world.host.get("demo")).toMatchObject({ phase: "Running", version: "1.35.4" });
    expect([...world.kubelets.values()]).toEqual(["1.35.4", "1.35.4"]);
    expect(world.saves.contents.get("demo")).toBe("written by 1.35");
    expect([world.cordoned.size, world.unguarded]).toEqual([0, false]);
  });

  test("of workers that are machines has pods leave each first, where there is another", async () => {
    const left = async (count: number): Promise<readonly string[]> => {
      const world = new World();
      world.host.save({ ...demo, spec: { ...spec, isolationLevel: "L3" } });
      if (count === 1) world.vnodes.kept.delete("demo/worker-2");
      expect(await world.upgrade()).toMatchObject({ state: "done" });
      expect(world.kubelets.get("worker-1")).toBe("1.36.4");
      return world.drained;
    };
    expect(await left(2)).toEqual(["worker-1", "worker-2"]);
    expect(await left(1)).toEqual([]);
  });

  test("of one replica of several keeps nobody waiting, and puts nothing back that others have answered", async () => {
    const world = new World();
    const ends = ["a", "b", "c"].map((node, slot) => ({ node, address: `192.0.2.${slot + 1}`, slot }));
    world.host.save({ ...demo, overlay: { nodes: ends, at: 1 } });
    const part = { only: "control plane", from: "1.35.4" } as const;
    expect((await world.upgrade({ ...args, part })).state).toBe("done");
    expect(world.held).toEqual([]);
    expect(world.deleted).toEqual([]);
    expect(world.saves.kept.get("demo/upgrade")).toBe("written by 1.35");
    expect([...world.kubelets.values()]).toEqual(["1.35.4", "1.35.4"]);
    // And back, as the server says.
    const back = { only: "control plane", from: "1.36.4" } as const;
    expect((await world.upgrade({ name: "demo", version: "1.35.4", drain: false, part: back })).state).toBe(
      "done",
    );
    expect(world.host.get("demo")).toMatchObject({ phase: "Running", version: "1.35.4" });
    world.bad.add("1.36.4");
    expect((await world.upgrade({ ...args, part })).state).toBe("failed");
    expect(world.host.get("demo")).toMatchObject({ phase: "Running", version: "1.35.4" });
    expect(world.saves.contents.get("demo")).toBe("written by 1.36");
  });

  test("of the workers of a node whose control plane is elsewhere leaves that alone, and returns by itself", async () => {
    const world = new World();
    const ends = ["a", "b"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` }));
    world.host.save({ ...demo, overlay: { nodes: ends, at: 1 } });
    const part = { only: "workers", from: "1.35.4" } as const;
    expect((await world.upgrade({ ...args, part })).state).toBe("done");
    expect(world.host.get("demo")).toMatchObject({ phase: "Running", version: "1.36.4" });
    expect([...world.kubelets.values()]).toEqual(["1.36.4", "1.36.4"]);
    expect([world.held, [...world.saves.kept]]).toEqual([[], []]);
    const broken = new World();
    broken.host.save({ ...demo, overlay: { nodes: ends, at: 1 } });
    broken.bad.add("kubelet 1.36.4");
    expect((await broken.upgrade({ ...args, part })).state).toBe("failed");
    expect(broken.host.get("demo")).toMatchObject({ phase: "Running", version: "1.35.4" });
    expect([...broken.kubelets.values()]).toEqual(["1.35.4", "1.35.4"]);
  });

  test("that can neither go on nor back is Failed, and says so", async () => {
    const world = new World();
    world.bad.add("1.36.4").add("1.35.4");
    expect((await world.upgrade()).state).toBe("failed");
    expect(world.host.get("demo")).toMatchObject({
      phase: "Failed",
      message: "neither Kubernetes 1.36.4 nor 1.35.4 could be started",
    });
  });

  test("is done or undone, wherever it is cut off", async () => {
    await testSaga({
      prepare: () => new World(),
      define: (engine, world) => {
        engine.register(upgradeClusterOperation(world));
        return { type: UPGRADE_CLUSTER, args };
      },
      check: ({ host, kubelets, saves }, outcome) => {
        const version = outcome === "done" ? "1.36.4" : "1.35.4";
        expect(host.get("demo")).toMatchObject({ phase: "Running", version });
        expect(host.get("demo")?.isSwitching).toBeUndefined();
        expect([...kubelets.values()]).toEqual([version, version]);
        expect(saves.contents.get("demo")).toBe(`written by ${version.slice(0, 4)}`);
      },
    });
  });
});
