// Machines that somebody deleted by hand and that the file no longer wants: what etcd and Kubernetes still have of them goes.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { stepName } from "../plan/plan-steps.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { clusterStatus } from "../status/cluster-status.ts";
import { driftOf } from "../status/drift.ts";
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
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-orphans-"));
  world = new FakeWorld();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const open = (more: Readonly<Record<string, unknown>>) =>
  openedCluster(world, { folder, cluster: testCluster(more), secrets });
const workers = (count: number) => ({ pools: [{ name: "worker", count }] });
const planes = (count: number) => ({ controlPlane: { count } });
const members = () => world.clusters.all[0]?.members.map(({ hostname }) => hostname).toSorted();
const nodes = () => [...world.fakeKubernetes.nodes.keys()].toSorted();

function deleteByHand(vmid: number): void {
  const { platform } = world;
  const node = platform.guests.get(vmid)?.node ?? "";
  platform.handle("POST", `/nodes/${node}/qemu/${vmid}/status/stop`, {});
  platform.handle("DELETE", `/nodes/${node}/qemu/${vmid}`, {});
}

test.each([
  ["under its own name", {}, "prod-cp-5"],
  ["under another hostname", { nodes: { "prod-cp-5": { hostname: "last" } } }, "last"],
])(
  "a member %s whose machine is gone and no longer wanted leaves etcd and Kubernetes",
  async (_how, named, hostname) => {
    await open({ ...planes(5), ...named }).apply();
    expect(members()).toContain(hostname);
    deleteByHand(2004);
    const opened = open(planes(3));
    const before = await opened.observe();
    expect(driftOf(opened.desired(), before)).toContainEqual({
      machine: "prod-cp-5",
      kind: "unwanted",
      detail: "its guest is gone, and etcd or Kubernetes still knows it",
    });
    const { steps, findings } = await opened.apply();
    expect(findings).toEqual([]);
    expect(steps.map(stepName)).toEqual([
      "etcd.snapshot prod-cp-1",
      `etcd.remove ${hostname}`,
      "node.delete prod-cp-5",
      "node.drain prod-cp-4",
      "etcd.leave prod-cp-4",
      "guest.stop prod-cp-4",
      "node.delete prod-cp-4",
      "guest.delete prod-cp-4",
    ]);
    expect(members()).toEqual(["prod-cp-1", "prod-cp-2", "prod-cp-3"]);
    expect(nodes()).not.toContain(hostname);
    expect(world.quorumLosses).toBe(0);
    const { machines } = clusterStatus(opened.desired(), await opened.observe(), opened.lock, secrets);
    expect(machines.map(({ name }) => name)).not.toContain("prod-cp-5");
    expect((await open(planes(3)).apply()).steps).toEqual([]);
  },
);

test("the node of a worker that is gone and no longer wanted goes, and not before it is down", async () => {
  await open(workers(3)).apply();
  deleteByHand(3002);
  const { findings, steps } = await open(workers(2)).apply();
  expect(findings).toEqual([]);
  expect(steps.map(stepName)).toEqual(["node.delete prod-worker-3"]);
  expect(nodes()).toEqual(["prod-cp-1", "prod-cp-2", "prod-cp-3", "prod-worker-1", "prod-worker-2"]);
});

test("one that is no longer wanted, not shown and answers is left alone", async () => {
  await open(planes(5)).apply();
  world.platform.hidden.add(2004);
  expect(await open(planes(3)).apply()).toMatchObject({
    steps: [],
    findings: [{ id: "guest-hidden", subject: "prod-cp-5" }],
  });
  expect(members()).toContain("prod-cp-5");
});
