// Machines whose hostname is not their name: they are known by their identity when the file no longer has them.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { stepName } from "../plan/plan-steps.ts";
import { readLock, writeLock } from "../folder/lock-file.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";

let folder: string;
let world: FakeWorld;
let secrets: SecretsBundle;
beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-hostnames-"));
  world = new FakeWorld();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const open = (more: Readonly<Record<string, unknown>>) =>
  openedCluster(world, { folder, cluster: testCluster(more), secrets });
const workers = (count: number) => ({ pools: [{ name: "worker", count }] });
const named = {
  controlPlane: { count: 3 },
  nodes: { "prod-cp-3": { hostname: "third" }, "prod-worker-2": { hostname: "gpu" } },
};
const guests = () => [...world.platform.guests.values()].map(({ config }) => config["name"]);
const members = () => world.clusters.all[0]?.members.map(({ hostname }) => hostname);

test("they are drained, out of Kubernetes and deleted when the file has fewer", async () => {
  await open(named).apply();
  expect(guests()).toContain("gpu");
  const { steps, findings } = await open(workers(1)).apply();
  expect(findings).toEqual([
    { id: "hostname-changes", severity: "error", subject: "prod-cp-3", evidence: expect.any(String) },
  ]);
  expect(steps).toEqual([]);
  const fewer = { ...workers(1), nodes: { "prod-cp-3": { hostname: "third" } } };
  expect((await open(fewer).apply()).steps.map(stepName)).toEqual([
    "node.drain prod-worker-2",
    "guest.stop prod-worker-2",
    "node.delete prod-worker-2",
    "guest.delete prod-worker-2",
  ]);
  expect(guests()).not.toContain("gpu");
  expect([...world.fakeKubernetes.nodes.keys()]).not.toContain("gpu");
});

test("a control plane among them leaves etcd first", async () => {
  await open(named).apply();
  const one = { controlPlane: { count: 1 }, nodes: { "prod-worker-2": { hostname: "gpu" } } };
  const { steps, findings } = await open(one).apply();
  expect(findings).toEqual([]);
  expect(steps.map(stepName)).toContain("etcd.leave prod-cp-3");
  expect(members()).toEqual(["prod-cp-1"]);
  expect(guests()).not.toContain("third");
});

test.each([
  ["its lock", (): void => undefined],
  [
    "no lock, and numbers of its pools to try",
    (): void =>
      writeLock(folder, { version: 1, cluster: "prod", appliedAt: null, contract: null, machines: {} }),
  ],
])("the end of a cluster finds them by %s", async (_what, lose) => {
  await open(named).apply();
  lose();
  await open({ ...workers(1), controlPlane: { count: 1 } }).destroy();
  expect(guests()).toEqual([]);
});

test("state that was lost is rebuilt under the machine's name", async () => {
  await open(named).apply();
  const before = readLock(folder, "prod").machines;
  expect(before["prod-worker-2"]).toMatchObject({ hostname: "gpu" });
  writeLock(folder, { version: 1, cluster: "prod", appliedAt: null, contract: null, machines: {} });
  const fewer = open({ ...workers(1), nodes: { "prod-cp-3": { hostname: "third" } } });
  await fewer.adopt();
  expect(readLock(folder, "prod").machines).toEqual(before);
});

test("a pool may be called as control planes are, and more", async () => {
  const pools = (count: number) => ({ pools: [{ name: "cp-large", count }] });
  await open(pools(2)).apply();
  const { steps, findings } = await open(pools(1)).apply();
  expect(findings).toEqual([]);
  expect(steps.map(stepName)).toEqual([
    "node.drain prod-cp-large-2",
    "guest.stop prod-cp-large-2",
    "node.delete prod-cp-large-2",
    "guest.delete prod-cp-large-2",
  ]);
  expect(members()).toHaveLength(3);
});
