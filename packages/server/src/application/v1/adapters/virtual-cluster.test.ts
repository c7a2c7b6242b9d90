import type { Schema } from "@gpve/contracts/v1/object.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { VirtualClusterRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { expect, test } from "vitest";
import { MemoryRecords } from "../../../testing/memory-records.ts";
import { Validator } from "../validation.ts";
import { KindCache } from "../kind-cache.ts";
import { virtualClusterAdapter } from "./virtual-cluster.ts";
import { quietKinds } from "../../../testing/quiet-kinds.ts";

/** Objects have what is described and no more. */
function withoutMore(schema: Schema): Schema {
  const closed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(closed);
    if (typeof value !== "object" || value === null) return value;
    const each = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, closed(inner)]));
    return "properties" in each ? { ...each, additionalProperties: false } : each;
  };
  return closed(schema) as Schema;
}

/** So many clusters of one node, which tells of all of them whenever it is asked to. */
async function world(count: number) {
  const records = new MemoryRecords();
  const names = Array.from({ length: count }, (_none, index) => `c${index}`);
  const spec = readVirtualClusterSpec({});
  await records.transact((tx) => {
    for (const name of names)
      tx.put(vclusterCollection, name, { name, tenant: "default", node: "n1", spec, madeBy: "r" });
  });
  let view: NodeView | undefined;
  let generation = 0;
  const board: NodeBoard = {
    list: () => (view === undefined ? [] : [view]),
    get: () => view,
    generation: () => generation,
  };
  const tell = (power: VirtualClusterRuntime["power"]): void => {
    const vclusters = names.map((name) => ({ name, phase: "Running" as const, power }));
    view = { node: "n1", health: "online", report: { vclusters } } as unknown as NodeView;
    generation++;
  };
  tell("cold");
  const cache = new KindCache(virtualClusterAdapter({ ...quietKinds, board }), records);
  const powers = () => new Set(cache.list().map(({ status }) => status["power"]));
  return { records, cache, tell, powers, names };
}

test("shows what nodes have told last, and the same objects until they tell again", async () => {
  const { cache, tell, powers, records } = await world(3);
  expect(powers()).toEqual(new Set(["cold"]));
  const before = cache.list();
  expect(cache.list()).toBe(before);
  tell("hot");
  expect(powers()).toEqual(new Set(["hot"]));
  await records.transact((tx) => tx.delete(vclusterCollection, "c1"));
  expect(cache.list().map(({ metadata }) => metadata.name)).toEqual(["c0", "c2"]);
  expect(cache.get("c1")).toBeUndefined();
});

test("describes all that it shows", async () => {
  const records = new MemoryRecords();
  const standby = { node: "n2", generation: 1, of: "n1", mode: "follow", inSync: true, since: 0 } as const;
  const recovered = { from: "n0", at: 0, lossMs: 0 };
  const ends = [{ node: "n1", address: "192.0.2.1", slot: 0 }];
  const base = { name: "demo", tenant: "default", node: "n1", spec: readVirtualClusterSpec({}), madeBy: "r" };
  await records.transact((tx) => {
    tx.put(vclusterCollection, "demo", { ...base, standby, recovered } as never);
    tx.put(vclusterCollection, "trio", {
      ...base,
      name: "trio",
      spread: { network: 1, nodes: ends },
    } as never);
  });
  const vnode = { name: "worker-1", running: true, cpus: 1, memoryBytes: 1, pods: 1, volumes: 1 };
  const told = {
    phase: "Running",
    power: "hot",
    version: "1.36.4",
    endpoint: "https://n1:16443",
    memoryBytes: 1,
    probedAt: 1,
    readySince: 1,
    keptAwake: { reason: "InUse", message: "Job default/pi" },
    vnodes: [{ ...vnode, usedBytes: 1, cpuSeconds: 1, accelerator: "kvm" }],
    standby: { generation: 1, isJoined: true, isConnected: true, revision: 2, confirmed: 2 },
  };
  const vclusters = ["demo", "trio"].map((name) => ({ name, ...told }));
  const view = { node: "n1", health: "online", report: { vclusters } } as unknown as NodeView;
  const board: NodeBoard = { list: () => [view], get: () => view, generation: () => 1 };
  const adapter = virtualClusterAdapter({ ...quietKinds, board });
  const { status: described } = adapter.kind;
  if (described === undefined) throw new Error("it has a status");
  const closed = withoutMore(described);
  const all = new KindCache(adapter, records).list();
  expect(all[0]?.status["conditions"]).toContainEqual({
    type: "KeptAwake",
    status: "True",
    reason: "InUse",
    message: "Job default/pi",
  });
  for (const { status } of all) expect(new Validator().check(closed, status, "the status")).toEqual(status);
});

test("a list of many costs as many times what a list of few does, and not the square of it", async () => {
  const cost = async (count: number): Promise<number> => {
    const { tell, powers } = await world(count);
    for (const power of ["hot", "cold", "hot"] as const) {
      tell(power);
      powers();
    }
    const begun = process.cpuUsage();
    for (const power of ["cold", "hot", "cold", "hot", "cold"] as const) {
      tell(power);
      powers();
    }
    const { user } = process.cpuUsage(begun);
    return user / count;
  };
  await cost(500);
  const few = await cost(500);
  expect((await cost(4_000)) / few).toBeLessThan(4);
});
