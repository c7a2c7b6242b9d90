// Snapshots, restores, destruction and lost state, on a world in memory.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { readLock } from "../folder/lock-file.ts";
import { imageFile } from "../image/image-file.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { stepName } from "../plan/plan-steps.ts";
import { dhcpHosts } from "../render/dhcp-hosts.ts";
import { clusterStatus } from "../status/cluster-status.ts";
import { driftOf } from "../status/drift.ts";
import { statusPage } from "../status/status-page.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { refuseDestroy } from "./destroy.ts";
import type { OpenCluster } from "./open-cluster.ts";

const clock = instantClock();
let secrets: SecretsBundle;
let world: FakeWorld;
let folder = "";
let kept: Buffer;

beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(() => {
  world = new FakeWorld();
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-day-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function open(more: Readonly<Record<string, unknown>> = {}): OpenCluster {
  return openedCluster(world, {
    folder,
    cluster: testCluster(more),
    secrets,
    clock,
    keepSnapshot: async (bytes) => {
      kept = bytes;
      return { at: clock.now(), file: "etcd.snapshot", sha256: "0" };
    },
  });
}

test("status names what is wrong, and makes a page of it", async () => {
  const before = open();
  const nothing = clusterStatus(before.desired(), await before.observe(), before.lock, undefined);
  expect(nothing).toMatchObject({ isHealthy: false, snapshot: null });
  expect(nothing.machines.map(({ state }) => state)).toEqual(Array.from({ length: 5 }, () => "missing"));
  await before.apply();
  const cluster = open();
  const fine = clusterStatus(cluster.desired(), await cluster.observe(), cluster.lock, secrets);
  expect(fine).toMatchObject({ isHealthy: true, certificates: [{ daysLeft: 3650 }, {}, {}] });
  expect(fine.machines[0]).toMatchObject({
    name: "prod-cp-1",
    vmid: 2000,
    state: "ready",
    talos: "v1.13.9",
    etcd: "healthy, leader",
    node: "Ready",
  });
  world.machine("prod-cp-2").isOn = false;
  world.clusters.all[0]?.alarms.set("prod-cp-3", 1);
  const sick = clusterStatus(cluster.desired(), await cluster.observe(), cluster.lock, secrets);
  expect(sick.checks.filter(({ isFine }) => !isFine).map(({ name }) => name)).toEqual([
    "Talos answers and is ready",
    "Talos is v1.13.9",
    "etcd is healthy",
    "nodes are ready",
  ]);
  const page = statusPage({ ...sick, cluster: "<b>" });
  expect(page).toContain("&lt;b&gt;");
  expect(page).toContain('<span class="bad">silent</span>');
  expect(page).not.toMatch(/<script|https?:/);
});

test("etcd comes back from a snapshot when it is gone, and never while it could be there", async () => {
  const cluster = open();
  await cluster.apply();
  await cluster.snapshot();
  expect(cluster.lock.snapshot).toMatchObject({ file: "etcd.snapshot" });
  await expect(cluster.restore(kept)).rejects.toThrow("etcd runs");
  for (const vmid of [2000, 2001, 2002]) {
    world.platform.handle("POST", `/nodes/pve${vmid - 1999}/qemu/${vmid}/status/stop`, {});
    world.platform.handle("DELETE", `/nodes/pve${vmid - 1999}/qemu/${vmid}`, {});
  }
  // The machines are made again, but nobody begins a new etcd in place of the one that was.
  const stopped = await open().apply();
  expect(stopped.findings).toMatchObject([{ id: "etcd-lost" }]);
  expect(world.clusters.all[0]?.bootstraps).toBe(1);
  const damaged = Buffer.from(kept);
  damaged[0] = (damaged[0] ?? 0) ^ 1;
  await expect(open().restore(damaged)).rejects.toThrow();
  await open().restore(kept);
  expect((await open().apply()).findings).toEqual([]);
  expect(world.summary()).toMatchObject({ members: ["prod-cp-1", "prod-cp-2", "prod-cp-3"] });
});

test("a machine is wiped in its guest and joins as a new one; a single control plane is not", async () => {
  await open().apply();
  const guests = [...world.platform.guests.keys()];
  const before = world.machine("prod-cp-2").bootId;
  const cluster = open();
  cluster.change((lock) => ({ ...lock, resetting: ["prod-cp-2", "prod-worker-1"] }));
  const { steps, findings } = await cluster.apply();
  expect(findings).toEqual([]);
  expect(steps.map(stepName)).toEqual([
    "node.drain prod-cp-2",
    "etcd.snapshot prod-cp-1",
    "etcd.leave prod-cp-2",
    "talos.reset prod-cp-2",
    "record.reset prod-cp-2",
    "talos.configure prod-cp-2",
    "node.uncordon prod-cp-2",
    "node.drain prod-worker-1",
    "talos.reset prod-worker-1",
    "record.reset prod-worker-1",
    "talos.configure prod-worker-1",
    "node.uncordon prod-worker-1",
  ]);
  expect([...world.platform.guests.keys()]).toEqual(guests);
  expect(world.machine("prod-cp-2").bootId).not.toBe(before);
  expect(world.quorumLosses).toBe(0);
  expect(world.clusters.all[0]).toMatchObject({ bootstraps: 1 });
  expect(readLock(folder, "prod").resetting).toEqual([]);
  const single = open({ controlPlane: { count: 1 } });
  await single.apply();
  single.change((lock) => ({ ...lock, resetting: ["prod-cp-1"] }));
  expect((await single.apply({ acceptsDowntime: true })).findings).toMatchObject([{ id: "quorum-at-risk" }]);
  expect(world.machine("prod-cp-1").config).toBeDefined();
});

test("drift is told machine by machine, without secrets, and apply takes it back", async () => {
  await open().apply();
  const drift = async (cluster: OpenCluster) => driftOf(cluster.desired(), await cluster.observe());
  expect(await drift(open())).toEqual([]);
  const guest = world.platform.guests.get(3000);
  if (guest === undefined) throw new Error("no worker");
  guest.config["cores"] = "1";
  world
    .machine("prod-cp-3")
    .apply(
      (world.machine("prod-cp-3").config?.text ?? "").replace(/token: .*/, "token: abcdef.0123456789abcdef"),
      false,
      2,
    );
  world.machine("prod-worker-2").isOn = false;
  world.clusters.all[0]?.join("stranger", () => true);
  const found = await drift(open({ versions: { talos: "v1.13.9", kubernetes: "v1.36.4" } }));
  const kinds = found.map(({ machine, kind }) => `${machine} ${kind}`);
  expect(new Set(kinds)).toEqual(
    new Set([
      "prod-cp-1 kubernetes",
      "prod-cp-2 kubernetes",
      "prod-cp-3 configuration",
      "prod-cp-3 kubernetes",
      "prod-worker-1 settings",
      "prod-worker-1 kubernetes",
      "prod-worker-2 silent",
      "stranger etcd",
      "etcd etcd",
    ]),
  );
  expect(found.find(({ kind }) => kind === "settings")?.detail).toBe("cores is 1, the file says 4");
  expect(JSON.stringify(found)).not.toContain("abcdef.0123");
  expect((await drift(open({ pools: [] }))).map(({ kind }) => kind)).toContain("unwanted");
});

test("other extensions reach machines that run, of their pool alone, and Talos that goes back is told", async () => {
  await open().apply();
  const extensions = ["siderolabs/iscsi-tools"];
  const more = { pools: [{ name: "worker", count: 2, extensions }] };
  const idOf = (own: readonly string[]) => imageFile(testCluster(), "amd64", own).schematic;
  // What no factory made is left as it is.
  const steps = async () => (await open(more).apply()).steps.map(stepName);
  expect((await steps()).filter((step) => step.startsWith("talos.upgrade"))).toEqual([]);
  for (const machine of world.machines.values()) machine.schematic = idOf([]);
  const drift = driftOf(open(more).desired(), await open(more).observe());
  expect(drift.map(({ machine, kind }) => `${machine} ${kind}`)).toEqual([
    "prod-worker-1 image",
    "prod-worker-2 image",
  ]);
  const canary = world.machine("prod-worker-1");
  canary.failsToBootNew = true;
  await expect(open(more).apply()).rejects.toMatchObject({ data: { finding: "upgrade-rolled-back" } });
  canary.failsToBootNew = false;
  expect((await steps()).filter((step) => step.startsWith("talos."))).toEqual([
    "talos.upgrade prod-worker-1",
    "talos.upgrade prod-worker-2",
  ]);
  expect(canary.schematic).toBe(idOf(extensions));
  expect(world.machine("prod-cp-1").schematic).toBe(idOf([]));
  expect(await steps()).toEqual([]);
});

test("disks that the file comes to want reach machines that run, one machine after another", async () => {
  await open().apply();
  const extraDisks = [{ gib: 100, storage: "local-lvm" }];
  const more = { pools: [{ name: "worker", count: 2, machine: { extraDisks } }] };
  const drift = driftOf(open(more).desired(), await open(more).observe());
  expect(drift.map(({ machine, detail }) => `${machine}: ${detail}`)).toEqual(
    [1, 2].map((number) => `prod-worker-${number}: scsi1 is (unset), the file says local-lvm:100,discard=on`),
  );
  const round = (name: string): readonly string[] =>
    ["node.drain", "guest.stop", "guest.change", "guest.start", "node.uncordon"].map(
      (kind) => `${kind} ${name}`,
    );
  expect((await open(more).apply()).steps.map(stepName)).toEqual([
    ...round("prod-worker-1"),
    ...round("prod-worker-2"),
  ]);
  expect(world.platform.guests.get(3001)?.config["scsi1"]).toBe(
    "local-lvm:vm-3001-disk-1,size=100G,discard=on",
  );
  expect((await open(more).apply()).steps).toEqual([]);
  const larger = {
    pools: [{ name: "worker", count: 2, machine: { extraDisks: [{ gib: 150, storage: "local-lvm" }] } }],
  };
  expect((await open(larger).apply()).steps.map(stepName)).toEqual([
    "guest.resize prod-worker-1",
    "guest.resize prod-worker-2",
  ]);
});

test("a folder that was lost is rebuilt from what is there, and nothing is to be done", async () => {
  await expect(open().adopt()).rejects.toThrow("no machine of prod is there");
  await open().apply();
  const before = readLock(folder, "prod");
  rmSync(join(folder, ".deployer"), { recursive: true });
  await open().adopt();
  const after = readLock(folder, "prod");
  expect(after.machines).toEqual(before.machines);
  expect(after.beginning).toMatchObject({ machine: "prod-cp-1", doneAt: expect.any(String) });
  expect((await open().apply()).steps).toEqual([]);
});

test("machines that ask a DHCP server are made, found and removed at the addresses that it was told", async () => {
  const network = { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1", addressing: "dhcp" };
  const file = testCluster({ network });
  for (const line of dhcpHosts(file, machinesOf(file)).split("\n")) {
    const [, mac, address] = /^dhcp-host=([^,]+),([^,]+),/.exec(line) ?? [];
    if (mac !== undefined && address !== undefined) world.leases.set(mac, address);
  }
  expect(world.leases.size).toBe(5);
  const { findings } = await open({ network }).apply();
  expect(findings).toEqual([]);
  const configs = [...world.platform.guests.values()].map(({ config }) => config["ipconfig0"]);
  expect(configs).toEqual(Array.from({ length: 5 }, () => "ip=dhcp"));
  // One that is no longer in the file is emptied before it goes, so it was reached.
  const smaller = await open({ network, pools: [{ name: "worker", count: 1 }] }).apply();
  expect(smaller.steps.map(stepName)).toEqual([
    "node.drain prod-worker-2",
    "guest.stop prod-worker-2",
    "node.delete prod-worker-2",
    "guest.delete prod-worker-2",
  ]);
  rmSync(folder, { recursive: true, force: true });
  const lost = open({ network, pools: [{ name: "worker", count: 1 }] });
  await lost.adopt();
  expect(lost.lock.machines["prod-cp-1"]?.addresses).toEqual([]);
});

test("machines that are protected at the platform go by the plan alone, and at once when the file says so", async () => {
  const size = { controlPlane: { machine: { protection: true } } };
  await open(size).apply();
  const guarded = () =>
    [...world.platform.guests].filter(([, { config }]) => config["protection"] === "1").map(([vmid]) => vmid);
  expect(guarded()).toEqual([2000, 2001, 2002]);
  expect(() => world.platform.handle("DELETE", "/nodes/pve1/qemu/2000", {})).toThrow(/running|protection/);
  // Taken off and put on while they run.
  await open().apply();
  expect(guarded()).toEqual([]);
  expect([...world.platform.guests.values()].every(({ status }) => status === "running")).toBe(true);
  await open(size).apply();
  expect(guarded()).toEqual([2000, 2001, 2002]);
  await open({ ...size, protect: { destroy: false } }).destroy();
  expect(world.platform.guests.size).toBe(0);
});

test("a cluster is destroyed with its name typed, and what is not ours stays", async () => {
  await open().apply();
  expect(() => refuseDestroy(testCluster(), "prod")).toThrow("protected");
  const free = testCluster({ protect: { destroy: false } });
  expect(() => refuseDestroy(free, "prd")).toThrow("not the name");
  refuseDestroy(free, "prod");
  const other = { node: "pve1", status: "running" as const, config: { name: "mail", tags: "talos-prod" } };
  world.platform.guests.set(2003, other);
  const steps = await open({ protect: { destroy: false } }).destroy();
  expect(steps).toHaveLength(10);
  expect([...world.platform.guests.keys()]).toEqual([2003]);
  expect(readLock(folder, "prod")).toMatchObject({ appliedAt: null, machines: {} });
  expect((await open().apply()).findings).toEqual([]);
  // Another cluster with the same secrets: it was begun anew, once.
  expect(world.clusters.all[0]?.members).toHaveLength(3);
});
