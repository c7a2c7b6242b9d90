import type { PlacementRequest, SchedulingRules } from "@gpve/domain/scheduler/model.ts";
import { readRules } from "@gpve/domain/scheduler/read-rules.ts";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { managerCollection, MANAGER_STATUS_ID } from "@gpve/domain/ha/collections.ts";
import { emptyManagerStatus } from "@gpve/domain/ha/model.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "@gpve/kit/logger.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { distantStore } from "../../testing/quota-world.ts";
import { SchedulerWorld } from "../../testing/scheduler-world.ts";
import type { PlaceQuestion } from "./explain-placement.ts";
import { DEFAULT_REBALANCE } from "./rebalancer.ts";
import { placementKey, placementsDef, placementTurnsDef, schedulingDef } from "./placement-records.ts";

const GiB = 1024 ** 3;
const { signal } = new AbortController();
const HOUR_MS = 3_600_000;
const terms = { by: "joe@pve", signal, maySeeNodes: true, keptMs: HOUR_MS };
const part = (id: string, cpu: number, rules: SchedulingRules = {}, labels = {}): PlacementRequest => ({
  id,
  kind: "vc",
  demand: { cpu, memory: GiB },
  needs: {},
  labels,
  rules,
});

let world: SchedulerWorld;
beforeEach(async () => {
  world = await SchedulerWorld.with(["n1", "n2"]);
});
afterEach(() => world.stop());

const used = (node: string): number => {
  const state = world.scheduler.view.state();
  return state.cpuUsed[state.indexOf(node) ?? -1] ?? 0;
};

describe("placing", () => {
  it("promises the place until it is released, and explains itself afterwards", async () => {
    const { placer } = world.scheduler;
    const first = await placer.place(part("vc/blue/cp-0", 3), terms);
    const second = await placer.place(part("vc/blue/cp-1", 3), terms);
    expect([first.node, second.node].toSorted()).toEqual(["n1", "n2"]);
    await expect(placer.place(part("vc/blue/cp-2", 3), terms)).rejects.toMatchObject({
      code: "capacity.exceeded",
      message: expect.stringContaining(
        "no node can take vc/blue/cp-2: 0 of 2 nodes can take it: 2 by NodeResourcesFit. n1: 1 of 3 CPUs are free",
      ),
    });
    await placer.release([first.id]);
    expect((await placer.place(part("vc/blue/cp-2", 3), terms)).node).toBe(first.node);
    expect(placer.placement("vc/blue/cp-1")).toMatchObject({ by: "joe@pve", lost: 0, node: second.node });
  });

  it("places nothing on a node in maintenance under HA, and evens nothing out to it", async () => {
    const put = (maintenance: Record<string, true>) =>
      world.records.transact((tx) =>
        tx.put(managerCollection, MANAGER_STATUS_ID, { ...emptyManagerStatus(), maintenance }),
      );
    await put({ n1: true });
    const { placer, view } = world.scheduler;
    expect((await placer.place(part("vm/1", 1), terms)).node).toBe("n2");
    await expect(placer.place(part("vm/2", 4), terms)).rejects.toThrow(
      "n1: it is in maintenance: gpvectl ha maintenance off n1",
    );
    expect(view.state().nodes.map(({ inMaintenance }) => inMaintenance)).toEqual([true, undefined]);
    await put({});
    expect((await placer.place(part("vm/2", 4), terms)).node).toBe("n1");
  });

  it("counts what workers of virtual clusters may use, wherever they are, until they go", async () => {
    const vc = (spec: object, more: object = {}): VirtualClusterRecord => ({
      name: "blue",
      tenant: "default",
      node: "n1",
      spec: readVirtualClusterSpec(spec as Record<string, unknown>),
      madeBy: "r",
      ...more,
    });
    const write = (record: VirtualClusterRecord | undefined) =>
      world.records.transact((tx) => {
        if (record === undefined) tx.delete(vclusterCollection, "blue");
        else tx.put(vclusterCollection, "blue", record);
      });
    const workerNodes = { count: 3, resources: { cpu: "1", memory: "1Gi" } };
    await write(vc({ workerNodes }));
    expect([used("n1"), used("n2")]).toEqual([3, 0]);
    expect((await world.scheduler.placer.place(part("vm/1", 2), terms)).node).toBe("n2");
    const nodes = ["n1", "n2"].map((node) => ({ node, address: "10.0.0.1" }));
    await write(vc({ workerNodes }, { spread: { network: 2048, nodes } }));
    expect([used("n1"), used("n2")]).toEqual([2, 3]);
    await write(undefined);
    expect([used("n1"), used("n2")]).toEqual([0, 2]);
  });

  it("says nothing of nodes to who may not see them", async () => {
    const refused = world.scheduler.placer.place(
      { ...part("vm/x", 99), kind: "vm" },
      { by: "t@pve", signal, keptMs: HOUR_MS },
    );
    await expect(refused).rejects.toThrow(
      /^no node can take vm\/x: 0 of 2 nodes can take it: 2 by EnoughCpus$/,
    );
  });

  it("keeps apart what is promised one after the other", async () => {
    const { placer } = world.scheduler;
    const apart = { antiAffinity: { required: [{ guests: "app=etcd" }] } };
    const place = (id: string) => placer.place(part(id, 1, apart, { app: "etcd" }), terms);
    const placed = [await place("vm/1"), await place("vm/2")];
    expect(new Set(placed.map(({ node }) => node)).size).toBe(2);
    await expect(place("vm/3")).rejects.toThrow(/GuestAffinity/);
  });

  it("lets the loser look again when two servers take the same node at once", async () => {
    const store = distantStore(openSqliteStore({ path: ":memory:" }));
    const open = () => openRecords(store, { prefix: "/gpve/", log: silentLogger });
    const [records, others] = [await open(), await open()];
    world.stop();
    world = await SchedulerWorld.with(["n1"], { records });
    const other = await SchedulerWorld.with(["n1"], { records: others });
    const wishes = [0, 1, 2, 3, 4, 5].map((at) =>
      (at % 2 === 0 ? world : other).scheduler.placer.place(part(`vc/p/${at}`, 1), terms),
    );
    const outcomes = await Promise.allSettled(wishes);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(4);
    await records.fresh();
    expect(used("n1")).toBe(4);
    const lost = records
      .collection(placementsDef)
      .list()
      .reduce((sum, { value }) => sum + value.lost, 0);
    expect(lost).toBeGreaterThan(0);
    expect(records.collection(placementTurnsDef).get("n1")?.value.turn).toBe(4);
    expect(world.scheduler.figures.text()).toMatch(
      /gpve_scheduler_attempts_total\{result="scheduled"\} [1-4]/,
    );
    other.stop();
    await Promise.all([records.close(), others.close()]);
    await store.close();
  });

  it("waits for room where it may, higher priority first, and gives up in time", async () => {
    const { placer, figures } = world.scheduler;
    const full = [await placer.place(part("vc/1", 4), terms), await placer.place(part("vc/2", 4), terms)];
    const order: string[] = [];
    const wait = (id: string, priority: number) =>
      placer.place(part(id, 4, { waitSeconds: 60, priority }), terms).then((placed) => order.push(placed.id));
    const low = wait("vc/low", 0);
    const high = wait("vc/high", 5);
    const never = placer.place(part("vc/never", 4, { waitSeconds: 10 }), terms);
    const gaveUp = expect(never).rejects.toMatchObject({ code: "capacity.exceeded" });
    await world.clock.advance(1);
    expect(figures.text()).toContain("gpve_scheduler_queue_depth 3");
    await placer.release([full[0]?.id ?? ""]);
    await world.clock.advance(500);
    await high;
    await world.clock.advance(10_000);
    await gaveUp;
    await placer.release(["vc/high"]);
    await world.clock.advance(500);
    await low;
    expect(order).toEqual(["vc/high", "vc/low"]);
    const stop = new AbortController();
    const left = placer.place(part("vc/left", 4, { waitSeconds: 60 }), { ...terms, signal: stop.signal });
    await world.clock.advance(1);
    stop.abort();
    await expect(left).rejects.toMatchObject({ code: "operation.cancelled" });
  });
});

describe("guests", () => {
  const access = { has: () => true, require: () => undefined, privileges: () => new Map() };
  const ctx = { actor: { userid: "joe@pve", authid: "joe@pve" }, access, signal };
  const vm = (vmid: number, more: object = {}) => ({
    kind: "vm" as const,
    vmid,
    keys: { cores: "2", memory: "2048", scsi0: "shared:8", net0: "virtio,bridge=vmbr0" },
    starts: true,
    ...more,
  });

  it("hold their place while they are made, as long as they run, and no longer", async () => {
    const { guests } = world.scheduler;
    const { node } = await guests.reserve(vm(100), ctx);
    expect(used(node)).toBe(2);
    await world.guest(100, node, "cores: 2\nmemory: 2048\n");
    expect(used(node)).toBe(2);
    world.report(node, [100]);
    await world.clock.advance(20 * 60_000);
    expect(used(node)).toBe(2);
    world.report(node, []);
    expect(used(node)).toBe(0);
    await world.gone(100);
    await world.clock.advance(1);
    expect(world.scheduler.placer.placement("vm/100")).toBeUndefined();
  });

  it("give their place back when nothing comes of them, at once or after a while", async () => {
    const { guests } = world.scheduler;
    const failing = guests.run(vm(100), ctx, () => Promise.reject(new Error("no disk")));
    await expect(failing).rejects.toThrow("no disk");
    expect([used("n1"), used("n2")]).toEqual([0, 0]);
    const { node } = await guests.reserve(vm(101), ctx);
    await world.clock.advance(16 * 60_000);
    expect(used(node)).toBe(0);
  });

  it("that do not run count where nodes are compared; templates count nowhere", async () => {
    await world.guest(100, "n1", "cores: 4\nmemory: 4096\n");
    await world.guest(101, "n2", "cores: 4\nmemory: 8192\ntemplate: 1\n");
    expect(used("n1")).toBe(0);
    expect((await world.scheduler.guests.reserve(vm(102), ctx)).node).toBe("n2");
  });

  it("are refused where storage, bridge or CPU are missing, with the reason; a backup is not placed", async () => {
    const refused = (keys: object) => world.scheduler.guests.reserve(vm(100, { keys }), ctx);
    await expect(refused({ scsi0: "ceph:8" })).rejects.toThrow(/storage ceph is not there, or not active/);
    await expect(refused({ net0: "virtio,bridge=vmbr9" })).rejects.toThrow(/it has no bridge vmbr9/);
    await expect(refused({ cpu: "x86-64-v3" })).rejects.toThrow(
      /its CPU has no .*which CPU type x86-64-v3 promises/,
    );
    await expect(refused({ ide2: "iso-store:iso/a.iso,media=cdrom" })).rejects.toThrow(/storage iso-store/);
    await expect(refused({ archive: "local:backup/x" })).rejects.toThrow(/say which node shall restore it/);
    await expect(
      world.scheduler.guests.reserve(
        { ...vm(100), kind: "ct", keys: { rootfs: "nfs:new,size=8G", net0: "name=eth0,bridge=vmbr7" } },
        ctx,
      ),
    ).rejects.toThrow(/it has no bridge vmbr7/);
  });

  it("are explained afterwards: what was decided, what would be now, what does not hold", async () => {
    const { explain, rules } = world.scheduler;
    await rules.set("100", readRules({ nodeAffinity: { required: ["disk=ssd"] } }));
    await world.guest(100, "n1", "cores: 1\nmemory: 1024\nscsi0: local:100/a.raw,size=1G\n");
    world.report("n1", [100]);
    const ctxOf = (has = access.has) => ({ access: { ...access, has }, signal });
    const story = await explain.guest("100", ctxOf());
    expect(story).toMatchObject({ node: "n1", now: { feasible: 0 } });
    expect(story.violations).toMatchObject([{ rule: "NodeAffinity", guest: "vm/100" }]);
    expect(story.decision).toBeUndefined();
    await expect(explain.guest("999", ctxOf())).rejects.toThrow(/there is no guest 999/);
    await world.node("n2", { labels: { disk: "ssd" } });
    expect((await explain.guest("100", ctxOf())).now.node).toBe("n2");
    expect(story.violations[0]?.why).toContain("disk=ssd");
    const hidden = await explain.guest(
      "100",
      ctxOf(() => false),
    );
    expect(hidden.now.verdicts).toEqual([{ node: "n2", refusals: [] }]);
    expect(hidden.violations).toEqual([
      { rule: "NodeAffinity", guest: "vm/100", node: "n1", why: "who has Sys.Audit on /nodes is told why" },
    ]);
    expect(explain.nodeLoss(["n1"]).stranded[0]?.why).toContain("it has a volume on storage local");
    expect(() => explain.nodeLoss(["n9"])).toThrow(/there is no node 'n9'; there are n1, n2/);
    await world.gone(100);
    await world.clock.advance(1);
    expect(world.records.collection(schedulingDef).get("100")).toBeUndefined();
  });

  it("can be tried before", async () => {
    const place = (question: PlaceQuestion) => world.scheduler.explain.place(question, signal);
    const answer = await place({
      count: 9,
      cpu: 1,
      storage: { shared: 0 },
      bridges: ["vmbr0"],
      tenant: "blue",
    });
    expect(answer).toMatchObject({ fits: false, explanation: { feasible: 0 } });
    expect(answer.placed).toHaveLength(8);
    const stored = async (storage: string) =>
      (await place({ count: 5, cpu: 0, memoryBytes: 0, storage: { [storage]: 40 * GiB } })).placed;
    expect(await stored("shared")).toHaveLength(2);
    expect(await stored("local")).toHaveLength(4);
    expect((await place({ labels: { app: "a" }, scheduling: { strategy: "ha-spread" } })).fits).toBe(true);
    await expect(place({ scheduling: { near: "a b" } })).rejects.toThrow(
      /scheduling\.near is no label selector/,
    );
    expect(world.records.collection(placementsDef).get(placementKey("vm/simulated-1"))).toBeUndefined();
    const isos = { storage: "shared", type: "dir", options: { path: "/i", content: "iso", shared: true } };
    await world.records.transact((tx) => tx.put(storageCollection, "shared", isos as never));
    const wrong = await place({ storage: { shared: 1 } });
    expect(wrong.explanation.verdicts[0]?.refusals[0]?.why).toBe("storage shared takes no images");
    expect((await place({ kind: "ct", storage: { shared: 1 } })).explanation.refused).toEqual({
      StorageReachable: 2,
    });
  });

  it("are judged by extenders then, and when they are explained, as when they are placed", async () => {
    const asked: string[] = [];
    const service = createServer((request, response) => {
      request.on("data", (data: Buffer) => asked.push(data.toString()));
      request.on("end", () => response.end(JSON.stringify({ refused: { n1: "no power" } })));
    });
    const port = await new Promise<number>((resolve) => {
      service.listen(0, "127.0.0.1", () => resolve((service.address() as AddressInfo).port));
    });
    world.stop();
    const extender = { name: "power", url: `http://127.0.0.1:${port}/`, timeoutMs: 5_000, weight: 1 };
    const extenders = [{ ...extender, onFailure: "refuse" as const }];
    const plain = { defaultStrategy: undefined, plugins: { filter: [], score: [] }, expressions: [] };
    world = await SchedulerWorld.with(["n1", "n2"], {
      config: { ...plain, extenders, rebalance: DEFAULT_REBALANCE },
    });
    const { explain } = world.scheduler;
    const answer = await explain.place({ count: 9, cpu: 1 }, signal);
    expect(answer).toMatchObject({
      fits: false,
      explanation: { refused: { power: 1, NodeResourcesFit: 1 } },
    });
    expect(answer.placed.map(({ node }) => node)).toEqual(Array.from({ length: 4 }, () => "n2"));
    expect(asked).toHaveLength(1);
    await world.guest(100, "n1");
    const { now } = await explain.guest("100", { access, signal });
    expect(now).toMatchObject({ node: "n2", refused: { power: 1 } });
    service.close();
    service.closeAllConnections();
  });
});

describe("rules that make no sense", () => {
  it.each<readonly [object, string]>([
    [{ strategy: "latency", maxSkew: 1 }, "spec.scheduling.maxSkew means nothing to strategy latency"],
    [{ strategy: "latency", utilizationThreshold: 1 }, "utilizationThreshold means nothing"],
    [{ gpuType: "A100" }, "gpuType needs gpuCount"],
    [{ tolerations: [{ operator: "Equal", value: "x" }] }, "tolerations[0].key is needed with Equal"],
    [
      { tolerations: [{ key: "a", operator: "Exists", value: "x" }] },
      "tolerations[0].value is not looked at",
    ],
    [{ affinity: { required: [{ guests: "=x" }] } }, "affinity.required[0].guests is no label selector"],
    [
      { nodeAffinity: { preferred: [{ nodes: "(", weight: 1 }] } },
      "nodeAffinity.preferred[0] is no label selector",
    ],
    [{ spread: [{ maxSkew: 1, guests: "," }] }, "spread[0].guests is no label selector"],
  ])("%j", (fields, text) => {
    expect(() => readRules(fields)).toThrow(text);
  });

  it("what is not about a place is left alone", () => {
    expect(readRules({ startOnBoot: true })).toBeUndefined();
    expect(readRules({ startOnBoot: true, priority: 1 })).toEqual({ priority: 1 });
  });
});
