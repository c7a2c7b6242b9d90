import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import { describe, expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { FakeClusterHost } from "../../testing/fake-cluster-host.ts";
import { FakeClusterApi, FakeVnodeHost, guardAnswer } from "../../testing/fake-vnode-host.ts";
import { KeepVnodes } from "./keep-vnodes.ts";
import { KeepVolumes } from "./keep-volumes.ts";
import { workerComponent } from "./worker-component.ts";
import { Workers } from "./workers.ts";

const nameServers = () => ({ listed: [], own: [] });

function clusterWith(workers: number): KeptCluster {
  const spec = readVirtualClusterSpec({ workerNodes: { count: workers } });
  return { name: "demo", tenant: "t", spec, version: "1.36.4", network: 7, phase: "Running", isWanted: true };
}

function world() {
  const [vnodes, api, clock, host] = [
    new FakeVnodeHost(),
    new FakeClusterApi(),
    new FakeClock(),
    new FakeClusterHost(),
  ];
  const lines: string[] = [];
  const brought: string[] = [];
  const say = (line: string): void => void lines.push(line);
  const ctx = { signal: new AbortController().signal, log: say, warn: say } as unknown as StepContext;
  const workers = new Workers({
    vnodes,
    api: api.call,
    clock,
    ensureComponent: async (name) => void brought.push(name),
    nameServers,
  });
  const log = {
    warn: (_about: object, line: string) => say(line),
    error: (about: object) => say(JSON.stringify(about)),
  };
  const keeper = new KeepVnodes({
    host,
    vnodes,
    api: api.call,
    clock,
    log: log as unknown as Logger,
    changed: () => undefined,
  });
  return { vnodes, api, clock, host, lines, brought, ctx, workers, keeper };
}

/** Lets the clock run until it is done: whoever sleeps is woken. */
async function advancing<T>(clock: FakeClock, work: Promise<T>): Promise<T> {
  let isDone = false;
  const end = (): void => void (isDone = true);
  work.then(end, end);
  while (!isDone) {
    await clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return work;
}

describe("the workers of a cluster on several nodes", () => {
  const nodes = ["a", "b"].map((node, at) => ({ node, address: `192.0.2.${at + 1}` }));

  test("are those of this node alone, and what every cluster has is made where its control plane is", async () => {
    const here = world();
    await here.workers.bring({ ...clusterWith(3), overlay: { nodes, at: 0 } }, here.ctx);
    expect([...here.vnodes.running]).toEqual(["demo/worker-1", "demo/worker-3"]);
    expect(here.api.made.some((path) => path.includes("deployments"))).toBe(true);
    const there = world();
    await there.workers.bring({ ...clusterWith(3), overlay: { nodes, at: 1 } }, there.ctx);
    expect([...there.vnodes.running]).toEqual(["demo/worker-2"]);
    expect(there.api.made.some((path) => path.includes("deployments"))).toBe(false);
  });

  test("come to no node while the cluster has what its guard would refuse, wherever its control plane is", async () => {
    const hostile = { metadata: { name: "p", namespace: "a" }, spec: { hostPID: true } };
    for (const at of [0, 1]) {
      const { vnodes, ctx, clock, api } = world();
      const call: ClusterApi = async (cluster, request, signal) => {
        if (request.method === "GET" && request.path === "/api/v1/pods")
          return { status: 200, body: { items: [hostile] } };
        if (request.method === "PUT") return { status: 422, body: { message: "level L1: no" } };
        return api.call(cluster, request, signal);
      };
      const workers = new Workers({
        vnodes,
        api: call,
        clock,
        ensureComponent: async () => undefined,
        nameServers,
      });
      const bring = workers.bring({ ...clusterWith(2), version: "1.35.6", overlay: { nodes, at } }, ctx);
      await expect(bring, `node ${at}`).rejects.toThrow("gets no workers while it has Pod a/p");
      expect([vnodes.running.size, api.made.some((path) => path.includes("policies"))]).toEqual([0, true]);
    }
  });

  test("leave the guard's objects to replicas of the version before, and to nobody else", async () => {
    const deleted = async (slots: boolean): Promise<boolean> => {
      const { workers, api, ctx } = world();
      const placed = nodes.map((each, slot) => (slots ? { ...each, slot } : each));
      await workers.bring({ ...clusterWith(2), overlay: { nodes: placed, at: 0 } }, ctx);
      return api.log.some((line) => line.startsWith("DELETE") && line.includes("gpve-l1-pods"));
    };
    expect([await deleted(true), await deleted(false)]).toEqual([false, true]);
  });

  test("come without a guard where an administrator wants none, and only where the platform's own is kept", async () => {
    const { workers, vnodes, api, ctx } = world();
    const spec = readVirtualClusterSpec({ workerNodes: { count: 1, privileged: true } });
    await workers.bring({ ...clusterWith(1), spec, version: "1.35.6" }, ctx);
    expect(vnodes.running.size).toBe(1);
    expect(api.log.some((line) => line.includes("validatingadmission") || line.includes("dryRun"))).toBe(
      false,
    );
    expect(api.log.some((line) => line.includes("subjectaccessreviews"))).toBe(true);
  });

  test("a node without any brings nothing", async () => {
    const { workers, vnodes, brought, ctx } = world();
    await workers.bring({ ...clusterWith(1), overlay: { nodes, at: 1 } }, ctx);
    expect([vnodes.running.size, brought]).toEqual([0, []]);
  });
});

describe("the workers of a cluster", () => {
  test("come with what they are made of, are told to it with their pods' addresses, and get names", async () => {
    const { workers, vnodes, api, ctx, brought, lines } = world();
    await workers.bring(clusterWith(2), ctx);
    expect([...vnodes.running]).toEqual(["demo/worker-1", "demo/worker-2"]);
    expect(api.nodes.get("worker-2")).toMatchObject({ podCIDR: "10.244.1.0/24" });
    expect(brought).toContain("containerd");
    expect(api.made.some((path) => path.includes("deployments"))).toBe(true);
    expect(lines).toEqual(["worker-1 is Ready", "worker-2 is Ready"]);
  });

  test("of a pool have its labels and taints, and keep their places when others go", async () => {
    const { workers, vnodes, api, ctx, clock } = world();
    const taints = [{ key: "dedicated", value: "build", effect: "NoSchedule" }];
    const pool = (count: number) => ({ name: "build", count, labels: { disk: "fast" }, taints });
    const cluster = (count: number, pooled: number): KeptCluster => ({
      ...clusterWith(0),
      spec: readVirtualClusterSpec({ workerNodes: { count, pools: [pool(pooled)] } }),
    });
    await workers.bring(cluster(2, 1), ctx);
    expect([...vnodes.running]).toEqual(["demo/worker-1", "demo/worker-2", "demo/build-1"]);
    expect(api.log.join()).toContain("POST /api/v1/nodes");
    await advancing(clock, workers.bring(cluster(1, 2), ctx));
    expect(vnodes.list("demo").map(({ name, slot }) => [name, slot])).toEqual([
      ["worker-1", 0],
      ["build-2", 1],
      ["build-1", 2],
    ]);
    expect(vnodes.list("demo")[1]).toMatchObject({ pool: "build", labels: { disk: "fast" }, taints });
    await advancing(clock, workers.bring(cluster(0, 0), ctx));
    expect(vnodes.list("demo")).toEqual([]);
  });

  test("that get a volume while they are drained stay, and are open again", async () => {
    const { vnodes, api, clock, ctx, workers } = world();
    await advancing(clock, workers.bring(clusterWith(2), ctx));
    api.pods.push({ namespace: "default", name: "web", node: "worker-2" });
    const isDrained = () => api.log.some((line) => line.endsWith("/eviction"));
    vnodes.volumes = (_cluster, { name }) => (isDrained() && name === "worker-2" ? ["pvc-1"] : []);
    const scaled = advancing(clock, workers.bring(clusterWith(1), ctx));
    await expect(scaled).rejects.toThrow("worker-2 has a persistent volume, which would go with it");
    expect([...vnodes.kept.keys()]).toEqual(["demo/worker-1", "demo/worker-2"]);
    expect([vnodes.running.size, api.nodes.get("worker-2")?.unschedulable]).toEqual([2, false]);
  });

  test("that go are cordoned and drained first, and leave nothing", async () => {
    const { workers, vnodes, api, ctx, clock, lines } = world();
    await workers.bring(clusterWith(2), ctx);
    api.pods.push({ namespace: "default", name: "web", node: "worker-2" });
    api.pods.push({ namespace: "kube-system", name: "agent", node: "worker-2", owner: "DaemonSet" });
    api.budgetRefusals = 1;
    await advancing(clock, workers.bring(clusterWith(1), ctx));
    expect([...vnodes.kept.keys()]).toEqual(["demo/worker-1"]);
    expect([...api.nodes.keys()]).toEqual(["worker-1"]);
    expect(api.log).toContain("POST /api/v1/namespaces/default/pods/web/eviction");
    expect(api.log.join()).not.toContain("pods/agent/eviction");
    expect(lines.join()).toContain("its disruption budget says so");
  });

  test("a pod that never leaves goes with its worker, and that is told", async () => {
    const { workers, api, ctx, clock, vnodes, lines } = world();
    await workers.bring(clusterWith(1), ctx);
    api.pods.push({ namespace: "default", name: "stays", node: "worker-1" });
    api.budgetRefusals = 1e9;
    await advancing(clock, workers.bring(clusterWith(0), ctx));
    expect(vnodes.kept.size).toBe(0);
    expect(lines.join()).toContain("pod default/stays did not leave worker-1");
  });

  test("go also where their cluster does not let them: what is given back is not used any more", async () => {
    const { vnodes, ctx, clock, api, lines } = world();
    let refuses: (path: string) => boolean = () => false;
    const call: ClusterApi = async (cluster, request, signal) =>
      request.method !== "POST" && refuses(request.path)
        ? { status: 500, body: { message: "failed calling webhook of the tenant" } }
        : api.call(cluster, request, signal);
    const workers = new Workers({
      vnodes,
      api: call,
      clock,
      ensureComponent: async () => undefined,
      nameServers,
    });
    for (const path of ["/api/v1/nodes/", "/api/v1/pods?", "/leases/"]) {
      refuses = () => false;
      await workers.bring(clusterWith(3), ctx);
      refuses = (asked) => asked.includes(path);
      await advancing(clock, workers.bring(clusterWith(0), ctx));
      expect([vnodes.running.size, vnodes.kept.size], path).toEqual([0, 0]);
      expect(lines.join()).toContain("worker-3 goes although its cluster refuses");
    }
    await workers.bring({ ...clusterWith(1), name: "other" }, ctx);
    const stopped = { ...ctx, signal: AbortSignal.abort(new Error("stopped")) } as StepContext;
    refuses = () => true;
    await expect(workers.bring({ ...clusterWith(0), name: "other" }, stopped)).rejects.toThrow();
    expect([...vnodes.running]).toEqual(["other/worker-1"]);
  });

  test("come with a controller for Ingresses where their cluster asks for one, others without", async () => {
    const objects = [
      "POST /apis/networking.k8s.io/v1/ingressclasses",
      "POST /apis/apps/v1/namespaces/kube-system/deployments",
    ];
    for (const more of [{}, { ingress: "traefik" as const }]) {
      const { workers, api, ctx, brought } = world();
      const cluster = clusterWith(1);
      await workers.bring({ ...cluster, spec: { ...cluster.spec, ...more } }, ctx);
      const has = "ingress" in more;
      expect([brought.includes("traefik"), api.log.includes(objects[0] ?? "")]).toEqual([has, has]);
      // The other one is for names.
      expect(api.log.filter((line) => line === objects[1])).toHaveLength(has ? 2 : 1);
    }
  });

  test("of level L2 come with the RuntimeClass of Kata, others without", async () => {
    for (const isolationLevel of ["L1", "L2"] as const) {
      const { workers, api, ctx } = world();
      const cluster = clusterWith(1);
      await workers.bring({ ...cluster, spec: { ...cluster.spec, isolationLevel } }, ctx);
      const made = api.log.filter((line) => line === "POST /apis/node.k8s.io/v1/runtimeclasses");
      expect(made).toHaveLength(isolationLevel === "L2" ? 1 : 0);
    }
  });

  test("one that never gets Ready is told with what it said", async () => {
    const { workers, api, ctx, clock } = world();
    api.neverReady = true;
    const bringing = expect(workers.bring(clusterWith(1), ctx)).rejects.toThrow(
      /worker-1 of demo is not Ready after 300 s: no network; worker-1 kubelet: hello/,
    );
    await advancing(clock, bringing);
  });

  test("what its cluster refuses is told with its words", async () => {
    const { vnodes, clock, ctx } = world();
    const api: ClusterApi = async (_cluster, request) => {
      if (["GET", "DELETE"].includes(request.method)) return { status: 200, body: {} };
      return guardAnswer(request) ?? { status: 403, body: { message: "no" } };
    };
    const workers = new Workers({ vnodes, api, clock, ensureComponent: async () => undefined, nameServers });
    await expect(workers.bring(clusterWith(1), ctx)).rejects.toThrow(
      "refused POST /api/v1/nodes with 403: no",
    );
  });
});

describe("keeping workers", () => {
  test("makes again what is missing, and tells a cluster that has forgotten one", async () => {
    const { workers, vnodes, api, host, ctx, keeper, lines } = world();
    const cluster = clusterWith(2);
    host.save(cluster);
    host.running.add("demo");
    await workers.bring(cluster, ctx);
    await keeper.look();
    expect(vnodes.restarted).toEqual([]);
    vnodes.running.delete("demo/worker-2");
    api.nodes.delete("worker-1");
    await keeper.look();
    expect(vnodes.running.has("demo/worker-2")).toBe(true);
    expect(vnodes.restarted).toEqual(["demo/worker-1/kubelet"]);
    expect(api.nodes.has("worker-1")).toBe(true);
    expect(lines.join()).toContain("worker-2 of demo is not whole");
  });

  test("begins by itself when a part ends, and tries later and later where it fails", async () => {
    const { workers, vnodes, host, clock, ctx, keeper, lines } = world();
    const cluster = clusterWith(1);
    host.save(cluster);
    await workers.bring(cluster, ctx);
    vnodes.broken.add("repair");
    vnodes.end("demo", "worker-1", "kubelet");
    await clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(lines.join()).toContain("kubelet of worker-1 of demo ended (crashed: boom)");
    expect(lines.join()).toContain("repair is broken");
    const told = lines.length;
    await keeper.look();
    expect(lines.length).toBe(told);
    vnodes.broken.clear();
    await clock.advance(2_000);
    await keeper.look();
    expect(vnodes.running.has("demo/worker-1")).toBe(true);
  });

  test("leaves those alone that shall not run", async () => {
    const { workers, vnodes, host, ctx, keeper } = world();
    host.save(clusterWith(1));
    await workers.bring(clusterWith(1), ctx);
    await workers.stop(clusterWith(1));
    await keeper.look();
    expect(vnodes.running.size).toBe(0);
    await vnodes.makeVolume(clusterWith(1), vnodes.list("demo")[0] as never, "pvc-1", 1);
    const said: string[] = [];
    await workers.remove(clusterWith(1), (line) => said.push(line));
    expect([vnodes.kept.size, vnodes.folders.size]).toEqual([0, 0]);
    expect(said).toEqual([expect.stringContaining("of worker-1 of demo had on this node is in /left/demo/")]);
    keeper.begin();
    keeper.close();
  });
});

test("workers get the first version of the catalogue that is here, else one that was imported", () => {
  const releases = ["2.4.2", "debian"].map((version) => ({ version, sources: () => [] }));
  const catalogue = [{ name: "containerd", about: "", programs: [], releases }];
  const store = (...versions: string[]) => ({
    list: () =>
      versions.map((version) => ({
        name: "containerd",
        version,
        origin: "go" as const,
        installedAt: 1,
        programs: {},
      })),
    get(_name: string, wanted: string) {
      return this.list().find(({ version }) => version === wanted);
    },
  });
  expect(workerComponent(store("debian"), catalogue, "containerd")).toBe("debian");
  expect(workerComponent(store("2.9.9"), catalogue, "containerd")).toBe("2.9.9");
  expect(workerComponent(store(), catalogue, "containerd")).toBe("2.4.2");
});

describe("persistent volumes", () => {
  const uid = "0a1b2c3d-0000-4000-8000-000000000001";
  const claim = (more: object = {}) => ({
    metadata: {
      name: "data",
      namespace: "default",
      uid,
      annotations: {
        "volume.kubernetes.io/storage-provisioner": "gpve.io/local",
        "volume.kubernetes.io/selected-node": "worker-1",
      },
      ...more,
    },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    status: { phase: "Pending" },
  });

  test("are folders of the worker that the pod is on, and go when nobody claims them", async () => {
    const { workers, vnodes, api, host, clock, ctx } = world();
    const nodes = ["a", "b", "c"].map((node, slot) => ({ node, address: "192.0.2.1", slot }));
    const cluster = clusterWith(1);
    host.save(cluster);
    host.running.add("demo");
    await workers.bring(cluster, ctx);
    const made: unknown[] = [];
    let claims: unknown[] = [claim(), claim({ uid: "../../etc" }), claim({ annotations: {} })];
    let volumes: unknown[] = [];
    let says = 200;
    const keeper = new KeepVolumes({
      host,
      vnodes,
      clock,
      log: { warn: () => undefined } as unknown as Logger,
      api: async (of, request, signal) => {
        if (request.method === "GET" && request.path.endsWith("claims"))
          return { status: says, body: { items: claims } };
        if (request.method === "GET" && request.path.endsWith("volumes"))
          return { status: 200, body: { items: volumes } };
        if (request.method === "POST") made.push(request.body);
        return api.call(of, request, signal);
      },
    });
    await keeper.look();
    expect([...vnodes.folders]).toEqual([`demo/worker-1/pvc-${uid}`]);
    expect(made).toMatchObject([
      { spec: { local: { path: `/var/lib/kubelet/gpve-volumes/pvc-${uid}` }, claimRef: { name: "data" } } },
    ]);
    // One that asks for more than the cluster was given waits, and is told why.
    claims = [claim({ name: "more", uid: uid.replace("1b", "1c") })];
    host.save({ ...cluster, spec: { ...cluster.spec, volumeBytes: 1.5 * 2 ** 30 } });
    await keeper.look();
    expect(vnodes.folders.size).toBe(1);
    expect(made.at(-1)).toMatchObject({ reason: "QuotaExceeded", involvedObject: { name: "more" } });
    // Its servers are told how much would do, where they may give it.
    expect(keeper.waitingBytes("demo")).toBe(2 ** 30);
    // Nodes do not know what the others have.
    const shared = { nodes: nodes.slice(0, 2), at: 0 };
    claims = [claim({ name: "share", uid: uid.replace("1b", "1d") })];
    host.save({ ...cluster, overlay: shared, spec: { ...cluster.spec, volumeBytes: 3 * 2 ** 30 } });
    await keeper.look();
    expect(vnodes.folders.size).toBe(1);
    expect(made.at(-1)).toMatchObject({
      involvedObject: { name: "share" },
      message: expect.stringContaining("3221225472 bytes together") as string,
    });
    claims = [];
    await keeper.look();
    expect(keeper.waitingBytes("demo")).toBeUndefined();
    volumes = [
      { ...(made[0] as object), status: { phase: "Released" } },
      { metadata: { name: "theirs" }, spec: {}, status: { phase: "Released" } },
    ];
    // Of a worker on another node: that one takes it away.
    host.save({ ...cluster, overlay: { nodes, at: 1 } });
    vnodes.kept.clear();
    vnodes.save("demo", { slot: 1, name: "worker-2", size: { cpus: 1, memoryBytes: 1 }, isWanted: true });
    await keeper.look();
    expect(vnodes.folders.size).toBe(1);
    host.save(cluster);
    await workers.bring(cluster, ctx);
    await keeper.look();
    expect(vnodes.folders.size).toBe(0);
    // Somebody deletes the volume himself.
    claims = [claim()];
    volumes = [];
    await keeper.look();
    claims = [];
    volumes = [made.at(-1)];
    await keeper.look();
    volumes = [];
    says = 503;
    await clock.advance(60_000);
    await keeper.look();
    expect(vnodes.folders.size).toBe(1);
    says = 200;
    await keeper.look();
    await clock.advance(60_000);
    await keeper.look();
    expect(vnodes.folders.size).toBe(0);
    keeper.begin();
    keeper.close();
  });
});
