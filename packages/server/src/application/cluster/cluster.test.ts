import { afterEach, beforeEach, expect, test } from "vitest";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import {
  managerCollection,
  MANAGER_STATUS_ID,
  resourceCollection,
  type HaResource,
} from "@gpve/domain/ha/collections.ts";
import { emptyManagerStatus, type ServiceStatus } from "@gpve/domain/ha/model.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import type { AccessView } from "@gpve/domain/request/context.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { clusterStatus, nodeList } from "./cluster-status.ts";
import { DatacenterOptionsStore } from "./datacenter-options.ts";
import { ListResources } from "./list-resources.ts";
import { nextFreeId } from "./next-id.ts";

const signal = new AbortController().signal;
let records: Awaited<ReturnType<typeof openRecords>>;
let close: () => Promise<void>;

beforeEach(async () => {
  const store = openSqliteStore({ path: ":memory:" });
  records = await openRecords(store, { prefix: "/gpve/", log: { error: () => undefined } } as never);
  close = async () => {
    await records.close();
    await store.close();
  };
});

afterEach(() => close());

const usage = {
  cpu: 0.25,
  wait: 0,
  loadavg: [0, 0, 0] as const,
  memory: { total: 100, used: 40, free: 60, available: 60 },
  swap: { total: 0, used: 0, free: 0 },
  rootfs: { total: 1000, used: 10, free: 990, avail: 990 },
  uptimeSeconds: 12.7,
  netIn: 0,
  netOut: 0,
};

function nodeView(node: string, health: NodeView["health"] = "online", nodeid = 1): NodeView {
  const runtime = {
    vmid: 100,
    type: "qemu",
    status: "running",
    uptimeSeconds: 5,
    cpu: 0.5,
    mem: 7,
    diskread: 1,
    diskwrite: 2,
    netin: 3,
    netout: 4,
  } as const;
  const report = {
    node,
    at: 0,
    agentVersion: "1",
    usage,
    guests: [runtime],
    storages: [{ storage: "local", active: true, totalBytes: 10, usedBytes: 4, availBytes: 6 }],
  };
  return {
    node,
    nodeid,
    health,
    address: "10.0.0.1",
    lastSeen: 0,
    certFingerprint: "AA",
    report,
    facts: undefined,
  };
}

let views = [nodeView("n1"), nodeView("n2", "offline")];
let generation = 0;
const board = {
  list: () => views,
  get: (node: string) => views.find((view) => view.node === node),
  generation: () => generation,
};
const root = { userid: "root@pam", authid: "root@pam" };
const see = (allowed: (path: string) => boolean): AccessView => ({
  privileges: () => new Map(),
  has: (path) => allowed(path),
  require: () => undefined,
});

async function addGuest(vmid: number, node = "n1", conf = "name: web\nmemory: 1024\n"): Promise<void> {
  await records.transact((tx) =>
    tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node, conf })),
  );
}

function lister(): ListResources {
  return new ListResources({
    guests: records.collection(guestCollection),
    board,
    pools: () => ({
      ids: () => ["p1"],
      ofGuest: (vmid) => (vmid === 100 ? "p1" : undefined),
      version: permissions,
    }),
    storages: () => storages,
    vclusters: records.collection(vclusterCollection),
    ha: {
      resources: records.collection(resourceCollection),
      manager: records.collection(managerCollection),
    },
  });
}
let permissions = {};
const storages = [{ storage: "local", type: "dir", content: "images", shared: false }];

test("shows how HA has a guest that is under it, anew when that changes", async () => {
  await addGuest(100);
  await addGuest(101);
  const list = new ListResources({
    guests: records.collection(guestCollection),
    board,
    pools: () => ({ ids: () => [], ofGuest: () => undefined, version: permissions }),
    storages: () => storages,
    vclusters: records.collection(vclusterCollection),
    ha: {
      resources: records.collection(resourceCollection),
      manager: records.collection(managerCollection),
    },
  });
  const states = (): unknown[] => {
    const rows = JSON.parse(list.json("vm", { actor: root, access: see(() => true) }).toString()) as Record<
      string,
      unknown
    >[];
    return rows.map((row) => row["hastate"]);
  };
  const manages = (state: ServiceStatus["state"]): Promise<unknown> =>
    records.transact((tx) =>
      tx.put(managerCollection, MANAGER_STATUS_ID, {
        ...emptyManagerStatus(),
        services: { "vm:101": { state, node: "n1", uid: "u" } },
      }),
    );
  expect(states()).toEqual([undefined, undefined]);
  await records.transact((tx) => tx.put(resourceCollection, "vm:101", { sid: "vm:101" } as HaResource));
  expect(states()).toEqual([undefined, undefined]);
  await manages("started");
  expect(states()).toEqual([undefined, "started"]);
  await manages("error");
  expect(states()).toEqual([undefined, "error"]);
  await records.transact((tx) => tx.delete(resourceCollection, "vm:101"));
  expect(states()).toEqual([undefined, undefined]);
});

test("shows what the running guests of a pool take together", async () => {
  await addGuest(100, "n1", "cores: 2\nmemory: 1024\n");
  const [pool] = JSON.parse(
    lister()
      .json(undefined, { actor: root, access: see(() => true) })
      .toString(),
  ) as Record<string, unknown>[];
  expect(pool).toEqual({
    id: "/pool/p1",
    type: "pool",
    pool: "p1",
    uptime: 5,
    mem: 7,
    maxmem: 1024 ** 3,
    cpu: 0.5,
    maxcpu: 2,
  });
});

test("shows a virtual cluster with what it and its workers may take and take, on all of its nodes", async () => {
  const spec = readVirtualClusterSpec({ workerNodes: { count: 2, resources: { cpu: "1", memory: "1Gi" } } });
  const demo = { name: "demo", tenant: "shop", node: "n1", spec, madeBy: "r" };
  await records.transact((tx) => tx.put(vclusterCollection, "demo", demo));
  const row = () =>
    (
      JSON.parse(
        lister()
          .json(undefined, { actor: root, access: see(() => true) })
          .toString(),
      ) as Record<string, unknown>[]
    ).find(({ type }) => type === "vcluster");
  const still = { uptime: 0, cpu: 0, maxcpu: 4, mem: 0, maxmem: 4 * 2 ** 30, disk: 0, maxdisk: 0 };
  const words = { id: "vcluster/shop/demo", type: "vcluster", name: "demo", pool: "shop", node: "n1" };
  expect(row()).toEqual({ ...words, status: "stopped", ...still });
  const before = views;
  const [n1, n2] = before;
  if (n1?.report === undefined || n2 === undefined) throw new Error("n1 has reported");
  const vnodes = [{ name: "worker-1", running: true, cpus: 1, memoryBytes: 9, pods: 0, usedBytes: 30 }];
  const runs = {
    phase: "Running",
    power: "hot",
    memoryBytes: 12,
    uptimeSeconds: 8,
    cores: 1,
    vnodes,
  } as const;
  const vclusters = [{ name: "demo", ...runs }];
  views = [{ ...n1, report: { ...n1.report, vclusters } }, n2];
  const figures = { ...still, uptime: 8, cpu: 0.25, mem: 42 };
  expect(row()).toEqual({ ...words, status: "running", ...figures });
  views = [{ ...n1, health: "offline" }, n2];
  expect(row()).toEqual({ ...words, status: "unknown", ...still });
  views = before;
});

test("lists every resource to root and keeps the bytes until something changes", async () => {
  await addGuest(100);
  await addGuest(101, "n2");
  const list = lister();
  const viewer = { actor: root, access: see(() => true) };
  const first = list.json(undefined, viewer);
  const rows = JSON.parse(first.toString()) as Record<string, unknown>[];
  expect(rows.map((row) => row["id"])).toEqual([
    "/pool/p1",
    "qemu/100",
    "qemu/101",
    "node/n1",
    "node/n2",
    "storage/n1/local",
    "storage/n2/local",
  ]);
  expect(rows[1]).toMatchObject({
    status: "running",
    cpu: 0.5,
    pool: "p1",
    template: 0,
    maxmem: 1024 * 1024 * 1024,
    name: "web",
  });
  expect(rows[1]).not.toHaveProperty("lock");
  expect(rows[2]).toMatchObject({ status: "unknown" });
  expect(rows[3]).toMatchObject({ status: "online", cpu: 0.25, uptime: 12 });
  expect(rows[4]).toEqual({ id: "node/n2", type: "node", node: "n2", status: "offline", level: "" });
  expect(rows[5]).toMatchObject({ status: "available", disk: 4, maxdisk: 10, plugintype: "dir" });
  expect(list.json(undefined, viewer)).toBe(first);
  await addGuest(102);
  expect(list.json(undefined, viewer)).not.toBe(first);
  expect(list.json("vm", viewer).toString()).toContain("qemu/102");
});

test("says of hundreds of guests what a report, a change and a deletion made of them", async () => {
  const vmids = Array.from({ length: 600 }, (_, at) => 1000 + at);
  for (const vmid of vmids) await addGuest(vmid);
  const list = lister();
  const all = { actor: root, access: see(() => true) };
  const some = { actor: { userid: "u@pve", authid: "u@pve" }, access: see((path) => path !== "/vms/1300") };
  const shown = (viewer = all) =>
    (JSON.parse(list.json("vm", viewer).toString()) as Record<string, unknown>[]).map(
      (row) => `${String(row["vmid"])} ${String(row["name"])} ${String(row["status"])}`,
    );
  const plain = vmids.map((vmid) => `${vmid} web stopped`);
  expect(shown()).toEqual(plain);
  expect(shown(some)).toEqual(plain.filter((row) => !row.startsWith("1300")));
  const [view, ...others] = views;
  if (view?.report === undefined) throw new Error("n1 has reported");
  const running = view.report.guests.map((guest) => ({ ...guest, vmid: 1300 }));
  views = [{ ...view, report: { ...view.report, guests: running } }, ...others];
  generation++;
  expect(shown()).toEqual(plain.with(300, "1300 web running"));
  await addGuest(1599, "n1", "name: last\n");
  expect(shown()).toEqual(plain.with(300, "1300 web running").with(599, "1599 last stopped"));
  await records.transact((tx) => tx.delete(guestCollection, "1000"));
  expect(shown()).toEqual(plain.with(300, "1300 web running").with(599, "1599 last stopped").slice(1));
  views = [view, ...others];
});

test("shows others only what they may audit", async () => {
  await addGuest(100);
  await addGuest(101);
  const rows = JSON.parse(
    lister()
      .json(undefined, { actor: { ...root, authid: "joe@pve" }, access: see((path) => path === "/vms/101") })
      .toString(),
  ) as { id: string; cpu?: number }[];
  expect(rows.map((row) => row.id)).toEqual(["qemu/101", "node/n1", "node/n2"]);
  expect(rows[1]).not.toHaveProperty("cpu");
});

test("forgets what someone may see when permissions change", async () => {
  await addGuest(100);
  const list = lister();
  const joe = { ...root, authid: "joe@pve" };
  const shown = (may: boolean): number =>
    (JSON.parse(list.json("vm", { actor: joe, access: see(() => may) }).toString()) as unknown[]).length;
  expect(shown(true)).toBe(1);
  permissions = {};
  expect(shown(false)).toBe(0);
  generation++;
  permissions = {};
  expect(shown(true)).toBe(1);
});

test("finds single guests and storages, and forgets deleted ones", async () => {
  await addGuest(100);
  const list = lister();
  expect(list.guest(100)).toMatchObject({ id: "qemu/100" });
  expect(list.storage("local")).toHaveLength(2);
  await records.transact((tx) => tx.delete(guestCollection, "100"));
  expect(list.guest(100)).toBeUndefined();
});

test("picks the lowest free id of the configured range and refuses a taken one", async () => {
  const options = new DatacenterOptionsStore(records);
  const guests = records.collection(guestCollection);
  expect(nextFreeId(guests, options.nextIdRange(), undefined)).toBe(100);
  await addGuest(100);
  expect(nextFreeId(guests, options.nextIdRange(), undefined)).toBe(101);
  expect(nextFreeId(guests, options.nextIdRange(), 555)).toBe(555);
  expect(() => nextFreeId(guests, options.nextIdRange(), 100)).toThrow(
    expect.objectContaining({ errors: { vmid: "VM 100 already exists" } }),
  );
  await options.update({ set: { "next-id": "lower=100,upper=101" }, delete: [] }, signal);
  expect(() => nextFreeId(guests, options.nextIdRange(), undefined)).toThrow(
    "unable to get any free VMID in range [100, 100]",
  );
});

test("stores datacenter options as written and shows property strings parsed", async () => {
  const options = new DatacenterOptionsStore(records);
  await options.update(
    {
      set: {
        migration: "insecure,network=10.0.0.0/24",
        "registered-tags": "a;b",
        keyboard: "de",
        "next-id": "lower=200,upper=300",
        crs: "ha=static,ha-rebalance-on-start=yes",
        "user-tag-access": "user-allow=list,user-allow-list=a;b",
      },
      delete: [],
    },
    signal,
  );
  expect(options.show()).toEqual({
    migration: { type: "insecure", network: "10.0.0.0/24" },
    "registered-tags": ["a", "b"],
    keyboard: "de",
    "next-id": { lower: "200", upper: "300" },
    crs: { ha: "static", "ha-rebalance-on-start": 1 },
    "user-tag-access": { "user-allow": "list", "user-allow-list": ["a", "b"] },
  });
  await options.update({ set: {}, delete: ["keyboard", "never-set"] }, signal);
  expect(options.read()).not.toHaveProperty("keyboard");
  await expect(options.update({ set: { keyboard: "de" }, delete: ["keyboard"] }, signal)).rejects.toThrow(
    "Parameter verification failed.",
  );
  await expect(
    options.update({ set: { "next-id": "lower=300,upper=200" }, delete: [] }, signal),
  ).rejects.toThrow("Parameter verification failed.");
});

test("shows one node without a cluster and all of them with one", () => {
  const alone = { name: undefined, localNode: "n1", quorate: () => true, version: () => 3 };
  expect(clusterStatus(board, alone)).toMatchObject([
    { type: "node", name: "n1", local: 1, online: 1, nodeid: 1 },
    { name: "n2", online: 0, local: 0 },
  ]);
  const single = { ...board, list: () => [nodeView("n1", "online", 5)] };
  expect(clusterStatus(single, alone)).toMatchObject([{ name: "n1", local: 1, nodeid: 0 }]);
  expect(clusterStatus(board, { ...alone, name: "prod" })[0]).toEqual({
    id: "cluster",
    type: "cluster",
    name: "prod",
    nodes: 2,
    version: 3,
    quorate: 1,
  });
});

test("a node keeps its id when another goes, and exactly one is local at any server", () => {
  const named = { name: "prod", localNode: "n3", quorate: () => true, version: () => 3 };
  const rows = (localNode: string, ...nodes: readonly NodeView[]): unknown[] =>
    clusterStatus({ ...board, list: () => nodes }, { ...named, localNode })
      .slice(1)
      .map((row) => [row["name"], row["nodeid"], row["local"]]);
  const [n1, n2, n3] = [
    nodeView("n1", "offline", 7),
    nodeView("n2", "online", 4),
    nodeView("n3", "online", 2),
  ];
  expect(rows("n1", n1, n2, n3)).toEqual([
    ["n1", 7, 1],
    ["n2", 4, 0],
    ["n3", 2, 0],
  ]);
  expect(rows("n2", n2, n3)).toEqual([
    ["n2", 4, 1],
    ["n3", 2, 0],
  ]);
  // A server on a machine of its own.
  expect(rows("elsewhere", n1, n2)).toEqual([
    ["n1", 7, 0],
    ["n2", 4, 1],
  ]);
  expect(rows("elsewhere", n1)).toEqual([["n1", 7, 1]]);
});

test("hides usage of nodes from those who may not audit them", () => {
  views = [nodeView("n1")];
  generation++;
  expect(nodeList(board, () => "BB", { has: () => true })[0]).toMatchObject({
    node: "n1",
    mem: 40,
    maxmem: 100,
    uptime: 12,
  });
  expect(nodeList(board, () => "BB", { has: () => false })[0]).toEqual({
    id: "node/n1",
    type: "node",
    node: "n1",
    status: "online",
    level: "",
    ssl_fingerprint: "BB",
  });
});
