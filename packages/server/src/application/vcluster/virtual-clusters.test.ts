import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import { type GuestMove, moveCollection } from "@gpve/domain/guest/guest-move.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Quota } from "@gpve/domain/quota/quota.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { putTenants, reportOf } from "../../testing/quota-world.ts";
import { nodeRecords } from "../node/collections.ts";
import { cacheReader } from "../v1/adapter.ts";
import { virtualClusterAdapter } from "../v1/adapters/virtual-cluster.ts";
import { quietKinds } from "../../testing/quiet-kinds.ts";
import { context, quota, UPID, vclusterWorld as world } from "../../testing/vcluster-world.ts";
import { joinedNode } from "../../testing/joined-node.ts";

/** Whoever asked is gone, or the node did not answer: it may have begun all the same. */
const HANGS_UP = [
  ["the client hung up", new AppError("operation.cancelled", "the request was cancelled")],
  ["the answer did not come", new AgentUnreachable(596, "Connection timed out")],
] as const;

describe("virtual clusters at a server", () => {
  test("are written down and told to a node that is online", async () => {
    const { create, names, asked, clusters } = await world();
    await create("demo");
    expect(names()).toEqual(["demo"]);
    expect(clusters.require("demo")).toMatchObject({ tenant: "default", node: "n1", madeBy: "r1" });
    expect(asked).toEqual([
      {
        route: "POST /gpve/nodes/{node}/vclusters",
        params: { vcluster: "demo", tenant: "default", spec: {}, requestId: "r1" },
      },
    ]);
  });

  test("are not made asleep with workers", async () => {
    const { create, names } = await world();
    const sleep = { fromStart: true };
    await expect(create("idle", "b", { sleep, workerNodes: { count: 1 } })).rejects.toThrow(
      "spec.sleep.fromStart: workers and replicas come to an API that answers",
    );
    expect(names()).toEqual([]);
    await create("idle", "b", { sleep });
    expect(names()).toEqual(["idle"]);
  });

  test("leave nothing when the node refuses", async () => {
    const { create, names, answers, decisions } = await world();
    answers(() => {
      throw new AppError("request.invalid", "Kubernetes 1.30 cannot be had");
    });
    await expect(create("demo", "a", { kubernetesVersion: "1.30" })).rejects.toThrow("cannot be had");
    expect([names(), decisions()]).toEqual([[], []]);
  });

  test.each(HANGS_UP)(
    "stay written down when nobody knows whether the node has taken them: %s",
    async (_what, err) => {
      const { create, names, answers } = await world();
      answers(() => {
        throw err;
      });
      await expect(create("demo", "a")).rejects.toThrow(err.message);
      await expect(create("other", "a")).rejects.toThrow(err.message);
      expect(names()).toEqual(["demo", "other"]);
      // What may run counts: who hangs up in time does not have more than his quota.
      await expect(create("third", "a")).rejects.toThrow(/vcCount of tenant 'a'/);
      answers(() => {
        throw new AgentUnreachable(595, "Connection refused");
      });
      await expect(create("far", "b")).rejects.toThrow("Connection refused");
      expect(names()).not.toContain("far");
    },
  );

  test("are bounded by the quota of their tenant and of those above it", async () => {
    const { create, names, quotas } = await world();
    await create("one", "a");
    await create("two", "a/b");
    await expect(create("three", "a/b")).rejects.toThrow(/vcCount of tenant 'a': used 2, asked 1, hard 2/);
    await create("other", "b");
    expect(names()).toEqual(["one", "other", "two"]);
    expect(quotas.view.usage(quota).limits).toMatchObject({ vcCount: 2 });
  });

  test("two at once do not both take the last place", async () => {
    const { create, names } = await world();
    await create("one", "a");
    const ends = await Promise.allSettled([create("two", "a"), create("three", "a")]);
    expect(ends.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(names()).toHaveLength(2);
  });

  const GIB = 2 ** 30;
  const bounded: Quota = { name: "b", tenant: "b", limits: { cpu: 4, memory: 8 * GIB }, requests: {} };
  const workersOf = (count: number) => ({
    workerNodes: { count, resources: { cpu: "1", memory: "1Gi" } },
  });

  test("count with the processors and the memory of their workers", async () => {
    const { create, names, quotas, records } = await world();
    await putTenants(records, [bounded], ["b"]);
    await create("small", "b", workersOf(3));
    expect(quotas.view.usage(bounded).limits).toEqual({ vcCount: 1, cpu: 3, memory: 3 * GIB });
    await expect(create("big", "b", workersOf(2))).rejects.toThrow(
      /create virtual cluster big.*cpu of tenant 'b': used 3, asked 2, hard 4/,
    );
    await create("none", "b");
    expect(names()).toEqual(["none", "small"]);
  });

  test("get more workers where there is room, which goes back when their node refuses", async () => {
    const { create, clusters, quotas, records, answers, asked, key } = await world();
    await putTenants(records, [bounded], ["b"]);
    await create("demo", "b", workersOf(2));
    const cpu = () => quotas.view.usage(bounded).limits.cpu;
    const scale = (workers: number) => clusters.scale(key("demo"), { count: workers }, context("s"), "once");
    await expect(scale(5)).rejects.toThrow(
      /give virtual cluster demo 5 workers.*cpu of tenant 'b': used 2, asked 3, hard 4/,
    );
    expect([asked.length, cpu()]).toEqual([1, 2]);
    answers(() => {
      throw new AppError("object.conflict", "it is Stopped");
    });
    await expect(scale(4)).rejects.toThrow("it is Stopped");
    await expect(scale(1)).rejects.toThrow("it is Stopped");
    expect([clusters.require(key("demo")).spec.workers, cpu()]).toEqual([2, 2]);
    for (const [, err] of HANGS_UP) {
      answers(() => {
        throw err;
      });
      await expect(scale(4)).rejects.toThrow(err.message);
      await expect(scale(1)).rejects.toThrow(err.message);
      expect([clusters.require(key("demo")).spec.workers, cpu()]).toEqual([4, 4]);
    }
    answers(() => UPID);
    expect(await scale(4)).toBe(UPID);
    expect(cpu()).toBe(4);
    expect(await scale(1)).toBe(UPID);
    expect([clusters.require(key("demo")).spec.workers, cpu()]).toEqual([1, 1]);
    await expect(clusters.scale("nowhere", { count: 1 }, context("s"), "once")).rejects.toThrow(
      "there is no",
    );
  });

  test("give the room back of workers that do not come, when their node has given them up", async () => {
    const { create, clusters, quotas, records, ends, key } = await world();
    await putTenants(records, [bounded], ["b"]);
    await create("demo", "b", workersOf(1));
    const cpu = () => quotas.view.usage(bounded).limits.cpu;
    const scale = (workers: number) => clusters.scale(key("demo"), { count: workers }, context("s"), "once");
    let end = Promise.withResolvers<void>();
    ends(() => end.promise, 1);
    expect([await scale(3), cpu()]).toEqual([UPID, 3]);
    end.reject(new AppError("operation.failed", "worker-2 is not Ready"));
    await expect.poll(() => [clusters.require(key("demo")).spec.workers, cpu()]).toEqual([1, 1]);
    // One of them stays: somebody has a volume there.
    end = Promise.withResolvers();
    ends(() => end.promise, 2);
    await scale(4);
    end.reject(new AppError("operation.failed", "worker-3 is not Ready"));
    await expect.poll(cpu).toBe(2);
    // Another number was asked for meanwhile: that one holds.
    const late = Promise.withResolvers<void>();
    ends(() => late.promise, 2);
    await scale(3);
    ends(async () => undefined, 4);
    await scale(4);
    late.reject(new AppError("operation.failed", "worker-3 is not Ready"));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(cpu()).toBe(4);
  });

  test("count with their pools, each of which grows by itself", async () => {
    const { create, clusters, quotas, records, answers, asked, key } = await world();
    await putTenants(records, [bounded], ["b"]);
    const pool = {
      name: "build",
      count: 1,
      resources: { cpu: "2", memory: "1Gi" },
      labels: { disk: "fast" },
    };
    const { workerNodes } = workersOf(1);
    await create("demo", "b", { workerNodes: { ...workerNodes, pools: [pool] } });
    expect(quotas.view.usage(bounded).limits).toEqual({ vcCount: 1, cpu: 3, memory: 2 * GIB });
    const scale = (count: number, name?: string) =>
      clusters.scale(key("demo"), { count, pool: name }, context("s"), "once");
    await expect(scale(2, "build")).rejects.toThrow(/cpu of tenant 'b': used 3, asked 2, hard 4/);
    await expect(scale(2, "other")).rejects.toThrow("there is no pool 'other'; there is: build");
    answers(() => UPID);
    expect(await scale(0, "build")).toBe(UPID);
    expect(asked.at(-1)?.params).toMatchObject({ workers: 0, pool: "build" });
    expect(quotas.view.usage(bounded).limits.cpu).toBe(1);
    expect(clusters.require(key("demo")).spec).toMatchObject({
      workers: 1,
      pools: [{ name: "build", count: 0 }],
    });
  });

  test("have volumes as far as their tenant's storage goes, and none where nobody said how much", async () => {
    const { create, clusters, quotas, records, asked, key } = await world();
    const stored: Quota = { name: "b", tenant: "b", limits: { storage: 10 * GIB }, requests: {} };
    await putTenants(records, [stored], ["b"]);
    await create("some", "b", { quota: { storage: "8Gi" } });
    expect(quotas.view.usage(stored).limits).toEqual({ vcCount: 1, storage: 8 * GIB });
    await expect(create("more", "b", { quota: { storage: "3Gi" } })).rejects.toThrow(
      /storage of tenant 'b': used 8Gi, asked 3Gi, hard 10Gi/,
    );
    await create("none", "b");
    expect(asked.at(-1)?.params).toMatchObject({ spec: { quota: { storage: 0 } } });
    expect(clusters.require(key("none")).spec.volumeBytes).toBe(0);
    await create("free", "a");
    expect(clusters.require(key("free", "a")).spec.volumeBytes).toBeUndefined();
  });

  test("count with what their volumes have, where the quota came later, and more asks for no more than that", async () => {
    const { create, clusters, quotas, records, board, clock, key } = await world();
    await create("free", "b");
    const stored: Quota = { name: "b", tenant: "b", limits: { storage: 10 * GIB }, requests: {} };
    await putTenants(records, [stored], ["b"]);
    const has = (volumeBytes: number) => {
      const worker = { name: "worker-1", running: true, cpus: 1, memoryBytes: 1, pods: 1, volumes: 1 };
      const row = { name: key("free"), phase: "Running", power: "hot" } as const;
      board.accept({
        ...reportOf([], clock.now()),
        vclusters: [{ ...row, vnodes: [{ ...worker, volumeBytes }] }],
      });
    };
    has(6 * GIB);
    expect(quotas.view.usage(stored).limits).toEqual({ vcCount: 1, storage: 6 * GIB });
    await expect(create("more", "b", { quota: { storage: "5Gi" } })).rejects.toThrow(
      /storage of tenant 'b': used 6Gi, asked 5Gi, hard 10Gi/,
    );
    const may = { ...context("q"), access: { require: () => undefined } } as unknown as RequestContext;
    await clusters.setQuota(key("free"), { volumeBytes: 9 * GIB }, may);
    expect(quotas.view.usage(stored).limits).toMatchObject({ storage: 9 * GIB });
    await clusters.setQuota(key("free"), { volumeBytes: GIB }, may);
    // What is there counts, whatever it may have.
    expect(quotas.view.usage(stored).limits).toMatchObject({ storage: 6 * GIB });
  });

  test("go to a node with the labels that are asked for", async () => {
    const { create, records, clusters } = await world();
    const selector = (nodeSelector: object) => ({ workerNodes: { nodeSelector } });
    await expect(create("demo", undefined, selector({ disk: "fast" }))).rejects.toThrow(
      /nodeSelector: no node that is online has these labels/,
    );
    await records.transact((tx) => tx.put(nodeRecords, "n1", joinedNode("n1", { labels: { disk: "fast" } })));
    await create("demo", undefined, selector({ disk: "fast" }));
    expect(clusters.require("demo").spec.nodeSelector).toEqual({ disk: "fast" });
  });

  test("two that grow at once do not both take the last room", async () => {
    const { create, clusters, quotas, records, key } = await world();
    await putTenants(records, [bounded], ["b"]);
    await create("one", "b", workersOf(1));
    await create("two", "b", workersOf(1));
    const ends = await Promise.allSettled(
      ["one", "two"].map((name) => clusters.scale(key(name), { count: 3 }, context("s"), name)),
    );
    expect(ends.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(quotas.view.usage(bounded).limits.cpu).toBe(4);
  });

  test("are not bounded by a quota that looks at guests with a tag", async () => {
    const { create, records } = await world();
    await putTenants(records, [{ ...bounded, limits: { vcCount: 0 }, scope: { tags: ["gold"] } }], ["b"]);
    await expect(create("demo", "b")).resolves.toBe(UPID);
  });

  test("are refused when the name is taken, the tenant or the node is not there", async () => {
    const { create } = await world();
    await create("demo");
    await expect(create("demo")).rejects.toThrow("already exists in tenant 'default'");
    await create("demo", "a");
    await expect(create("demo", "a")).rejects.toThrow("already exists in tenant 'a'");
    await expect(create("x", "nobody")).rejects.toThrow("there is no tenant 'nobody'");
    await expect(create("x", "a", { node: "n9" })).rejects.toThrow("these are: n1");
  });

  test("are asked about at their node, by the tenant they belong to", async () => {
    const { create, clusters, asked, answers, key } = await world();
    await create("demo", "b");
    answers(() => ({ id: "1", kubeconfig: "text", expiresAt: 0 }));
    expect(await clusters.kubeconfig(key("demo"), 5, context("k"))).toEqual({
      id: "1",
      kubeconfig: "text",
      expiresAt: "1970-01-01T00:00:00.000Z",
    });
    answers(() => UPID);
    expect(await clusters.work(key("demo"), "stop", context("s"), "once")).toBe(UPID);
    await clusters.revoke(key("demo"), "1", context("v"));
    await clusters.logs(key("demo"), context("l"));
    expect(asked.map(({ params }) => (params as { tenant: string }).tenant)).toEqual([
      "b",
      "b",
      "b",
      "b",
      "b",
    ]);
    await clusters.remove(key("demo"), context("d"));
    expect(() => clusters.require(key("demo"))).toThrow("there is no VirtualCluster '");
  });

  test("are shown as their node tells them", async () => {
    const { create, board, records, clock, key } = await world();
    await create("demo", "b");
    const adapter = virtualClusterAdapter({ ...quietKinds, board });
    const shown = () => adapter.get(cacheReader(records), key("demo"))?.status;
    expect(shown()).toMatchObject({ phase: "Pending", power: "cold" });
    const vclusters = [
      {
        name: key("demo"),
        phase: "Running",
        power: "hot",
        endpoint: "https://x",
        version: "1.36.4",
        probedAt: 5,
        readySince: 4,
        vnodes: [{ name: "worker-1", running: true, cpus: 2, memoryBytes: 4, pods: 3 }],
      } as const,
    ];
    board.accept({ ...reportOf([], clock.now()), vclusters });
    expect(shown()).toMatchObject({
      phase: "Running",
      endpoint: "https://x",
      lastProbeTime: "1970-01-01T00:00:00.005Z",
      vnodes: [{ name: "worker-1", node: "n1", running: true, cpu: 2, memoryBytes: 4, pods: 3 }],
      kubeconfig: "/api/v1/tenants/b/vclusters/demo/kubeconfig",
      conditions: [
        {
          type: "Ready",
          status: "True",
          reason: "Running",
          lastTransitionTime: "1970-01-01T00:00:00.004Z",
        },
        { type: "StandbyInSync", status: "False", reason: "OneNode" },
      ],
    });
    expect(adapter.list(cacheReader(records))).toHaveLength(1);
  });

  test("are ready while they sleep: who connects is answered", async () => {
    const { create, board, records, clock } = await world();
    await create("demo");
    const vclusters = [{ name: "demo", phase: "Running", power: "cold", asleep: true } as const];
    board.accept({ ...reportOf([], clock.now()), vclusters });
    expect(
      virtualClusterAdapter({ ...quietKinds, board }).get(cacheReader(records), "demo")?.status,
    ).toMatchObject({
      power: "cold",
      conditions: [{ type: "Ready", status: "True", reason: "Asleep" }, { type: "StandbyInSync" }],
    });
  });

  test("tell which kubeconfigs of theirs are good", async () => {
    const { create, clusters, asked, answers } = await world();
    await create("demo");
    const endless = { id: "1123456789abcdef", user: "joe@pve" };
    answers(() => [{ id: "0123456789abcdef", user: "joe@pve", expiresAt: 0 }, endless]);
    expect(await clusters.kubeconfigs("demo", context("k"))).toEqual([
      { id: "0123456789abcdef", user: "joe@pve", expiresAt: "1970-01-01T00:00:00.000Z" },
      endless,
    ]);
    expect(asked.at(-1)).toMatchObject({
      route: "GET /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs",
      params: { vcluster: "demo", tenant: "default" },
    });
  });

  test("change when they sleep, at their node and in the store", async () => {
    const { create, clusters, asked } = await world();
    await create("demo");
    await clusters.setSleep("demo", { mode: "warm", afterIdleSeconds: 60 }, context("p"));
    expect(clusters.require("demo").spec.sleep).toEqual({ mode: "warm", afterIdleSeconds: 60 });
    expect(await clusters.sleep("demo", "warm", context("s"), "once")).toBe(UPID);
    expect(asked.slice(1).map(({ params }) => params)).toEqual([
      { vcluster: "demo", tenant: "default", mode: "warm", afterIdleSeconds: 60 },
      { vcluster: "demo", tenant: "default", mode: "warm", requestId: "once" },
    ]);
  });

  test("get another quota of their own where their tenant has room, and who asks may make one", async () => {
    const { create, clusters, board, records, key, asked, answers, quotas } = await world();
    const bound = { name: "b", tenant: "b", limits: { storage: 4 * 2 ** 30 }, requests: {} };
    await putTenants(records, [quota, bound], ["a", "a/b", "b"]);
    await create("demo", "b");
    const adapter = virtualClusterAdapter({ ...quietKinds, board, vclusters: clusters });
    const change = async (wanted: object, held = true) => {
      const previous = adapter.get(cacheReader(records), key("demo"));
      if (adapter.act === undefined || previous === undefined) throw new Error("not there");
      const require = (): void => {
        if (!held) throw new AppError("access.denied", "Permission check failed (/pool/b, VC.Allocate)");
      };
      const ctx = { ...context("c"), access: { require } } as unknown as RequestContext;
      const spec = { ...previous.spec, quota: wanted };
      await adapter.act.change({ name: "demo", namespace: "b", spec, previous, ctx });
    };
    const bytes = () => clusters.require(key("demo")).spec.volumeBytes;
    expect(bytes()).toBe(0);
    await expect(change({ storage: "3Gi" }, false)).rejects.toThrow("VC.Allocate");
    await change({ storage: "3Gi", cpu: "8" });
    expect(asked.at(-1)).toMatchObject({
      route: "PUT /gpve/nodes/{node}/vclusters/{vcluster}/quota",
      params: { vcluster: key("demo"), tenant: "b", quota: { storage: "3Gi", cpu: "8" } },
    });
    expect(quotas.view.usage(bound).limits).toMatchObject({ storage: 3 * 2 ** 30 });
    await expect(change({ storage: "5Gi" })).rejects.toThrow(/storage of tenant 'b'/);
    await expect(change({ cpu: "nine" })).rejects.toThrow("spec.quota.cpu");
    answers(() => {
      throw new AppError("request.invalid", "not now");
    });
    await expect(change({ storage: "4Gi" })).rejects.toThrow("not now");
    expect(bytes()).toBe(3 * 2 ** 30);
    answers(() => null);
    // What is not said stays.
    await change({ storage: "1Gi" });
    expect(clusters.require(key("demo")).spec).toMatchObject({
      volumeBytes: 2 ** 30,
      workerQuota: { cpus: 8 },
    });
  });

  test("have new kubeconfigs lead elsewhere when that is said, and the others stay", async () => {
    const { create, clusters, board, records, asked } = await world();
    await create("demo");
    const adapter = virtualClusterAdapter({ ...quietKinds, board, vclusters: clusters });
    const change = async (exposure: string) => {
      const previous = adapter.get(cacheReader(records), "demo");
      if (adapter.act === undefined || previous === undefined) throw new Error("not there");
      const networking = { ...(previous.spec["networking"] as object), exposure };
      const spec = { ...previous.spec, networking };
      await adapter.act.change({ name: "demo", namespace: undefined, spec, previous, ctx: context("c") });
    };
    for (const exposure of ["server", "node"]) {
      await change(exposure);
      expect(clusters.require("demo").spec.exposure).toBe(exposure);
    }
    await change("Auto");
    expect(clusters.require("demo").spec).not.toHaveProperty("exposure");
    // No node has to know.
    expect(asked).toHaveLength(1);
  });

  test("that were made asleep are told anew when they sleep, and no other becomes one of them", async () => {
    const { create, clusters, board, records, key, asked } = await world();
    await create("idle", "b", { sleep: { fromStart: true } });
    const adapter = virtualClusterAdapter({ ...quietKinds, board, vclusters: clusters });
    const change = async (name: string, sleep: object) => {
      const previous = adapter.get(cacheReader(records), key(name));
      if (adapter.act === undefined || previous === undefined) throw new Error("not there");
      const spec = { ...previous.spec, sleep };
      await adapter.act.change({ name, namespace: "b", spec, previous, ctx: context("c") });
    };
    await change("idle", { mode: "cold", afterIdleSeconds: 60, fromStart: true });
    expect(asked.at(-1)?.params).toEqual({
      vcluster: key("idle"),
      tenant: "b",
      mode: "cold",
      afterIdleSeconds: 60,
    });
    expect(clusters.require(key("idle")).spec.sleep).toMatchObject({ afterIdleSeconds: 60, fromStart: true });
    await create("demo", "b");
    await expect(change("demo", { fromStart: true })).rejects.toThrow("spec.sleep.fromStart: says how");
  });

  test("that move are neither started nor stopped nor woken before their move has ended", async () => {
    const { create, clusters, records, asked } = await world();
    await create("demo");
    const end = { node: "n1", address: "192.0.2.1", port: 1, fingerprints: [] };
    const ends = { vmid: 0, id: "m", from: end, to: end, at: 0 };
    const move: GuestMove = { ...ends, vcluster: "demo", purpose: "vcluster" };
    await records.transact((tx) => tx.put(moveCollection, "0:m", move));
    const told = asked.length;
    for (const verb of ["start", "stop", "retry", "wake"] as const)
      await expect(clusters.work("demo", verb, context("w"), "once")).rejects.toThrow("is moving to another");
    expect(asked.length).toBe(told);
    await records.transact((tx) => tx.delete(moveCollection, "0:m"));
    expect(await clusters.work("demo", "stop", context("w"), "once")).toBe(UPID);
  });

  test("of which two groups are to be scaled at once are left as they are", async () => {
    const { create, clusters, board, records, key, asked } = await world();
    const pools = [{ name: "build", count: 1 }];
    await create("demo", "b", { workerNodes: { count: 1, pools } });
    const adapter = virtualClusterAdapter({ ...quietKinds, board, vclusters: clusters });
    const previous = adapter.get(cacheReader(records), key("demo"));
    if (adapter.act === undefined || previous === undefined) throw new Error("not there");
    const workerNodes = { count: 2, pools: [{ name: "build", count: 2 }] };
    const spec = { ...previous.spec, sleep: { mode: "none" }, workerNodes };
    const told = asked.length;
    const changed = adapter.act.change({ name: "demo", namespace: "b", spec, previous, ctx: context("c") });
    await expect(changed).rejects.toThrow("one group of workers is scaled at a time");
    expect(asked.length).toBe(told);
  });

  test("keep their tenant, and what this release cannot change", async () => {
    const { create, clusters, board, records, key } = await world();
    await create("demo", "b");
    const adapter = virtualClusterAdapter({ ...quietKinds, board, vclusters: clusters });
    const { act } = adapter;
    const previous = adapter.get(cacheReader(records), key("demo"));
    if (act === undefined || previous === undefined) throw new Error("not there");
    const change = (spec: object, namespace?: string) =>
      act.change({
        name: "demo",
        namespace,
        spec: { ...previous.spec, ...spec },
        previous,
        ctx: context("c"),
      });
    await expect(change({})).resolves.toBeUndefined();
    await expect(change({ sleep: { mode: "none" } })).resolves.toBeUndefined();
    expect(clusters.require(key("demo")).spec.sleep?.mode).toBe("none");
    await expect(change({}, "a")).rejects.toThrow("stays in tenant 'b'");
    const refused = async (spec: object): Promise<unknown> => {
      const err: unknown = await change(spec).catch((thrown: unknown) => thrown);
      return err instanceof AppError ? [err.code, err.errors] : err;
    };
    expect(await refused({ kubernetesVersion: "1.35" })).toEqual([
      "request.invalid",
      { "spec.kubernetesVersion": expect.stringContaining("upgrade") },
    ]);
    const tier = { controlPlane: { tier: "Standard" }, isolationLevel: "L3", workerNodes: { count: 1 } };
    expect(await refused(tier)).toEqual([
      "request.invalid",
      expect.objectContaining({
        "spec.controlPlane.tier": expect.stringContaining("stays"),
        "spec.isolationLevel": expect.stringContaining("stays"),
      }),
    ]);
    expect(clusters.require(key("demo")).spec.workers).toBe(0);
  });

  test("go also when their node is no member any more, and not while it is one that is away", async () => {
    const { create, clusters, names, asked, records, answers, key, decisions } = await world();
    await create("demo", "b");
    answers(() => {
      throw new AgentUnreachable(595, "No route to host");
    });
    await expect(clusters.remove(key("demo"), context("d1"))).rejects.toThrow("No route to host");
    expect(names()).toEqual(["demo"]);
    await records.transact((tx) => {
      const now = tx.get(vclusterCollection, key("demo"))?.value;
      if (now !== undefined) tx.put(vclusterCollection, key("demo"), { ...now, node: "gone" });
    });
    asked.length = 0;
    expect(decisions()).toHaveLength(1);
    await clusters.remove(key("demo"), context("d2"));
    expect([names(), asked, decisions()]).toEqual([[], [], []]);
  });

  test("of one name in two tenants are two: to their nodes, in the store, and when one goes", async () => {
    const { create, clusters, key, asked, names, records } = await world();
    await create("demo");
    await create("demo", "a");
    await create("demo", "b");
    expect(names()).toEqual(["demo", "demo", "demo"]);
    const keys = [key("demo", "default"), key("demo", "a"), key("demo")];
    expect([new Set(keys).size, keys[0]]).toEqual([3, "demo"]);
    expect(asked.map(({ params }) => params)).toEqual([
      { vcluster: "demo", tenant: "default", spec: {}, requestId: "r1" },
      { vcluster: keys[1], called: "demo", tenant: "a", spec: {}, requestId: "r2" },
      { vcluster: keys[2], called: "demo", tenant: "b", spec: {}, requestId: "r3" },
    ]);
    await clusters.remove(key("demo", "a"), context("d"));
    const left = records.collection(vclusterCollection).list();
    expect(left.map(({ value }) => value.tenant).toSorted()).toEqual(["b", "default"]);
  });

  test("that were made when names were everybody's stay what they are, and are in nobody's way", async () => {
    const { create, clusters, key, asked, records, board } = await world();
    // As it was written then.
    const spec = readVirtualClusterSpec({});
    const old = { name: "demo", tenant: "a", node: "n1", spec, madeBy: "r0" };
    await records.transact((tx) => tx.put(vclusterCollection, "demo", old));
    expect(key("demo", "a")).toBe("demo");
    await expect(create("demo", "a")).rejects.toThrow("already exists in tenant 'a'");
    await clusters.work("demo", "stop", context("s"), "once");
    expect(asked).toEqual([
      {
        route: "POST /gpve/nodes/{node}/vclusters/{vcluster}/stop",
        params: { vcluster: "demo", tenant: "a", requestId: "once" },
      },
    ]);
    await create("demo");
    await create("demo", "b");
    const keys = [key("demo", "a"), key("demo", "default"), key("demo")];
    expect([new Set(keys).size, keys[0]]).toEqual([3, "demo"]);
    const shown = virtualClusterAdapter({ ...quietKinds, board }).list(cacheReader(records));
    expect(shown.map(({ name, namespace }) => `${namespace}/${name}`)).toEqual([
      "a/demo",
      "b/demo",
      "default/demo",
    ]);
    await clusters.remove(keys[1] ?? "", context("d"));
    expect(clusters.require("demo").tenant).toBe("a");
  });
});
