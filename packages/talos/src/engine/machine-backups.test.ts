// Backups of machines, and workers that come back from them, on a world in memory.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { backupMachines, machineBackups, restoreMachine } from "./machine-backups.ts";
import type { OpenCluster } from "./open-cluster.ts";

const clock = instantClock();
let secrets: SecretsBundle;
let world: FakeWorld;
let folder = "";
let steps: string[] = [];

beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(async () => {
  world = new FakeWorld();
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-backup-"));
  steps = [];
  expect((await open().apply()).findings).toEqual([]);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const drivers = () => new Map([["pve", world.driver(clock)]]);

function open(): OpenCluster {
  return openedCluster(world, { folder, cluster: testCluster({}), secrets, clock });
}

async function deps() {
  const cluster = open();
  return {
    desired: cluster.desired(),
    world: await cluster.observe(),
    drivers: drivers(),
    kubernetes: world.kubernetes,
    clock,
    note: (event: string, step: string) => void steps.push(`${event} ${step}`),
  };
}

const guest = (vmid: number) => world.platform.guests.get(vmid);

test("every machine is backed up, and older ones of a machine go when a new one is there", async () => {
  const made = await backupMachines(await deps(), { names: [], storage: "local" });
  expect(made.map(({ machine, isFrozen }) => [machine, isFrozen])).toEqual([
    ["prod-cp-1", true],
    ["prod-cp-2", true],
    ["prod-cp-3", true],
    ["prod-worker-1", true],
    ["prod-worker-2", true],
  ]);
  // Somebody else's, from a time when he had this VMID.
  const foreign = { vmid: 3000, volid: "local:backup/other.vma.zst", ctime: 1, config: { name: "mail" } };
  world.platform.backups.kept.push(foreign);
  await backupMachines(await deps(), { names: ["prod-worker-1"], storage: "local", keep: 1 });
  const found = await machineBackups(await deps(), "local");
  expect(found.filter(({ machine }) => machine === "prod-worker-1")).toHaveLength(1);
  expect(found).toHaveLength(5);
  expect(world.platform.backups.kept).toContain(foreign);
  await expect(backupMachines(await deps(), { names: ["nobody"], storage: "local" })).rejects.toThrow(
    "the file has no machine nobody",
  );
});

test("a worker is emptied, written over and started, and the next apply finds nothing to do", async () => {
  await backupMachines(await deps(), { names: ["prod-worker-1"], storage: "local" });
  const before = { ...guest(3000)?.config };
  Object.assign(guest(3000)?.config ?? {}, { cores: "1", protection: "1" });
  steps = [];
  const volume = await restoreMachine(await deps(), { name: "prod-worker-1", storage: "local" });
  expect(volume).toContain("vzdump-qemu-3000-");
  expect(steps).toEqual([
    "begin node.drain prod-worker-1",
    "done node.drain prod-worker-1",
    "begin guest.restore prod-worker-1",
    "done guest.restore prod-worker-1",
  ]);
  expect(guest(3000)).toMatchObject({ status: "running", config: before });
  const { findings } = await open().apply();
  expect(findings).toEqual([]);
  expect(world.clusters.all.map(({ bootstraps }) => bootstraps)).toEqual([1]);
});

test("a worker that is gone comes back under its VMID, unless somebody else has it", async () => {
  await backupMachines(await deps(), { names: ["prod-worker-2"], storage: "local" });
  world.platform.guests.delete(3001);
  await restoreMachine(await deps(), { name: "prod-worker-2", storage: "local" });
  expect(guest(3001)).toMatchObject({ status: "running", config: { name: "prod-worker-2" } });
  const other = { node: guest(3001)?.node ?? "", status: "stopped" as const, config: { name: "mail" } };
  world.platform.guests.set(3001, other);
  await expect(
    restoreMachine(await deps(), { name: "prod-worker-2", storage: "local" }),
  ).rejects.toMatchObject({ data: { finding: "vmid-taken" } });
  expect(guest(3001)).toBe(other);
});

test.each([
  ["prod-cp-1", undefined, "backup-of-control-plane"],
  ["prod-worker-1", "prod-worker-2", "backup-of-another"],
  ["prod-worker-1", undefined, undefined],
])("%s from a backup of %s is refused, and nothing is touched", async (name, of, finding) => {
  if (of !== undefined) await backupMachines(await deps(), { names: [of], storage: "local" });
  const volume = world.platform.backups.kept[0]?.volid;
  const before = world.platform.done.length;
  const asked = restoreMachine(await deps(), { name, storage: "local", volume });
  await expect(asked).rejects.toMatchObject(
    finding === undefined ? { code: "object.not_found" } : { data: { finding } },
  );
  expect(world.platform.done.slice(before)).toEqual([]);
});
