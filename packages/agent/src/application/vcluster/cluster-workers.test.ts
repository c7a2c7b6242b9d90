import { describe, expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { at, base, clustersWorld as world, ctx, DELETE } from "../../testing/clusters-world.ts";

describe("a virtual cluster with persistent volumes", () => {
  const volumes = "GET /gpve/nodes/{node}/vclusters/{vcluster}/volumes" as const;

  test("is deleted only where it is said that they go with it, as they are at that moment", async () => {
    const { make, run, host, vnodes, routes } = await world();
    expect(routes[volumes](base, ctx)).toEqual([]);
    await make({ workerNodes: { count: 2 } });
    expect(routes[volumes](base, ctx)).toEqual([]);
    vnodes.folders.add("demo/worker-2/pvc-1");
    expect(routes[volumes](base, ctx)).toEqual([{ vnode: "worker-2", name: "pvc-1" }]);
    expect(() => routes[volumes]({ ...base, tenant: "evil" }, ctx)).toThrow("there is no virtual cluster");
    await expect(run(DELETE)).rejects.toThrow(
      "virtual cluster 'demo' has 1 persistent volume in use, which would be lost with it: delete their claims",
    );
    expect([host.get("demo")?.phase, vnodes.running.size]).toEqual(["Running", 2]);
    expect(await run(DELETE, { force: true })).toBe("done");
    expect(host.list()).toEqual([]);
  });

  test("that is going already goes on, and what another node goes on with is put aside", async () => {
    const { make, run, host, vnodes } = await world();
    await make({ workerNodes: { count: 1 } });
    vnodes.folders.add("demo/worker-1/pvc-1");
    host.save({ ...(host.get("demo") as KeptCluster), phase: "Terminating" });
    expect(await run(DELETE)).toBe("done");
    vnodes.folders.clear();
    await make({ workerNodes: { count: 1 } });
    vnodes.folders.add("demo/worker-1/pvc-2");
    expect(await run(DELETE, { keepVolumes: true })).toBe("done");
    expect([host.list(), vnodes.folders.size]).toEqual([[], 0]);
  });
});

describe("workers", () => {
  test("are scaled, and their pods are told; older versions get none", async () => {
    const { host, make, run, vnodes, routes } = await world();
    await make({ workerNodes: { count: 1 } });
    expect(await run(at("scale"), { workers: 2 })).toBe("done");
    expect([host.get("demo")?.spec.workers, vnodes.running.size]).toEqual([2, 2]);
    expect(host.phases).toContain("Scaling");
    await expect(run(at("scale"), { workers: 999 })).rejects.toThrow("room for 200 workers");
    await expect(run(at("scale"), { workers: 1, tenant: "evil" })).rejects.toThrow("there is no virtual");
    vnodes.podsOf.set("demo/worker-2", [{ namespace: "default", name: "web", uid: "u" }]);
    const row = { vcluster: "demo", tenant: "shop", vnode: "worker-2", namespace: "default", name: "web" };
    const pods = routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/pods"];
    expect(await pods(base, ctx)).toEqual([{ ...row, uid: "u" }]);
    expect(() => pods({ ...base, tenant: "evil" }, ctx)).toThrow("there is no virtual cluster");
    expect(await routes["GET /gpve/nodes/{node}/vcluster-pods"]({ node: "n1" }, ctx)).toHaveLength(1);
    vnodes.folders.add("demo/worker-2/pvc-1");
    const scale = routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/scale"];
    expect(scale({ ...base, workers: 3 }, ctx)).toEqual({ workers: 2 });
    expect(() => scale({ ...base, workers: 1 }, ctx)).toThrow("worker-2 has a persistent volume");
    await expect(run(at("scale"), { workers: 1 })).rejects.toThrow(
      "worker-2 has a persistent volume, which would go with it: delete what claims it first (pvc-1;",
    );
    const old = await world(["1.31.9"]);
    await expect(old.make({ workerNodes: { count: 1 }, kubernetesVersion: "1.31" })).rejects.toThrow(
      "workers need Kubernetes 1.32 or newer",
    );
  });
});

describe("workers that are to go", () => {
  test("stay with all that is on them where somebody has made a volume since that was asked for", async () => {
    const { host, make, run, vnodes } = await world();
    await make({ workerNodes: { count: 2 } });
    const scaled = run(at("scale"), { workers: 1 });
    vnodes.folders.add("demo/worker-2/pvc-1");
    expect(await scaled).toMatch(/^failed: worker-2 has a persistent volume, which would go with it/);
    expect(host.get("demo")).toMatchObject({ phase: "Running", spec: { workers: 2 } });
    expect([vnodes.running.size, vnodes.folders.size]).toEqual([2, 1]);
    expect(host.phases).not.toContain("Scaling");
  });
});

describe("workers that do not come", () => {
  /** Nobody gets Ready meanwhile; whoever waits is woken. */
  const inVain = async ({ api, clock }: Awaited<ReturnType<typeof world>>, work: Promise<string>) => {
    api.neverReady = true;
    let isDone = false;
    const end = (): void => void (isDone = true);
    work.then(end, end);
    while (!isDone) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(10_000);
    }
    api.neverReady = false;
    return work;
  };

  test("are given back, and the cluster goes on with those that it had", async () => {
    const all = await world();
    const { host, make, run, vnodes, api } = all;
    await make({ workerNodes: { count: 1 } });
    const why = /worker-1 of demo is not Ready after 300 s: no network/;
    // Its API has nothing to do with it: whoever uses the cluster must not notice.
    expect(await inVain(all, run(at("scale"), { workers: 3 }))).toMatch(why);
    expect(host.get("demo")).toMatchObject({ phase: "Running", spec: { workers: 1 } });
    expect(host.get("demo")?.message).toMatch(
      /^it has 1 worker as before: more did not come: worker-1 of demo/,
    );
    expect([...vnodes.kept.keys(), ...vnodes.running]).toEqual(["demo/worker-1", "demo/worker-1"]);
    expect([...api.nodes.keys()]).toEqual(["worker-1"]);
    expect(api.log).toContain("DELETE /api/v1/nodes/worker-3");
    expect(host.phases).not.toContain("Failed");
    expect(await run(at("scale"), { workers: 2 })).toBe("done");
    expect([host.get("demo")?.spec.workers, vnodes.running.size]).toEqual([2, 2]);
    expect(host.get("demo")).not.toHaveProperty("message");
  });

  test("are given back in their pool alone, but for one that somebody has a volume on by now", async () => {
    const all = await world();
    const { host, make, run, vnodes } = all;
    await make({ workerNodes: { count: 1, pools: [{ name: "build", count: 1 }] } });
    vnodes.folders.add("demo/build-2/pvc-1");
    const scaled = run(at("scale"), { workers: 4, pool: "build" });
    expect(await inVain(all, scaled)).toContain("is not Ready after 300 s");
    expect(host.get("demo")).toMatchObject({
      phase: "Running",
      spec: { workers: 1, pools: [{ name: "build", count: 2 }] },
    });
    expect(vnodes.list("demo").map(({ name }) => name)).toEqual(["worker-1", "build-1", "build-2"]);
  });

  test("before the agent is started again come afterwards: nothing of it has failed", async () => {
    const { host, make, run, vnodes, api, restart } = await world();
    await make({ workerNodes: { count: 1 } });
    api.neverReady = true;
    run(at("scale"), { workers: 2 }).catch(() => undefined);
    await expect.poll(() => vnodes.running.size).toBe(2);
    const between = restart();
    api.neverReady = false;
    expect(await between).toBe("Scaling");
    await expect.poll(() => host.get("demo")).toMatchObject({ phase: "Running", spec: { workers: 2 } });
    expect(host.phases).not.toContain("Failed");
  });
});

describe("workers that do not go", () => {
  test.each(["stop", "remove"] as const)("are its own still, and used as before: %s", async (what) => {
    const { host, make, run, vnodes, api } = await world();
    await make({ workerNodes: { count: 3 } });
    vnodes.broken.add(what);
    expect(await run(at("scale"), { workers: 1 })).toContain(`${what} is broken`);
    expect(host.get("demo")).toMatchObject({ phase: "Running", isWanted: true, spec: { workers: 3 } });
    expect(host.get("demo")?.message).toBe(`it has 3 workers, not 1 as asked for: ${what} is broken`);
    expect(host.phases).not.toContain("Failed");
    expect(vnodes.list("demo").every(({ isWanted }) => isWanted)).toBe(true);
    expect([...vnodes.running].toSorted()).toEqual(["demo/worker-1", "demo/worker-2", "demo/worker-3"]);
    expect([...api.nodes].map(([name, { unschedulable }]) => [name, unschedulable])).toEqual([
      ["worker-1", false],
      ["worker-2", false],
      ["worker-3", false],
    ]);
    vnodes.broken.clear();
    expect(await run(at("scale"), { workers: 1 })).toBe("done");
    expect(vnodes.list("demo").map(({ name }) => name)).toEqual(["worker-1"]);
    expect(host.get("demo")).toMatchObject({ phase: "Running", spec: { workers: 1 } });
    expect(host.get("demo")).not.toHaveProperty("message");
  });

  test("are counted in their pool, without those that went", async () => {
    const { host, make, run, vnodes } = await world();
    await make({ workerNodes: { count: 1, pools: [{ name: "build", count: 3 }] } });
    const remove = vnodes.remove.bind(vnodes);
    vnodes.remove = async (cluster, vnode) => {
      if (vnode.name === "build-2") throw new Error("it is busy");
      await remove(cluster, vnode);
    };
    expect(await run(at("scale"), { workers: 0, pool: "build" })).toContain("it is busy");
    expect(host.get("demo")).toMatchObject({
      phase: "Running",
      message: "it has 2 workers in pool build, not 0 as asked for: it is busy",
      spec: { workers: 1, pools: [{ name: "build", count: 2 }] },
    });
    expect(vnodes.list("demo").map(({ name }) => name)).toEqual(["worker-1", "build-1", "build-2"]);
  });

  test("stay also where they cannot be used again, for whoever keeps workers whole", async () => {
    const { host, make, run, vnodes } = await world();
    await make({ workerNodes: { count: 2 } });
    vnodes.broken.add("remove").add("start");
    expect(await run(at("scale"), { workers: 1 })).toContain("remove is broken");
    expect(host.get("demo")).toMatchObject({ phase: "Running", spec: { workers: 2 } });
    expect(vnodes.list("demo").at(-1)).toMatchObject({ name: "worker-2", isWanted: true });
  });

  test("are not to be blamed for what is wrong with those that stay: the cluster goes on", async () => {
    const { host, make, run, vnodes } = await world();
    await make({ workerNodes: { count: 2 } });
    vnodes.broken.add("start");
    expect(await run(at("scale"), { workers: 1 })).toContain("start is broken");
    expect(host.get("demo")).toMatchObject({
      phase: "Running",
      message: "it has 1 worker as asked for, and not all is well with it: start is broken",
      spec: { workers: 1 },
    });
  });
});
