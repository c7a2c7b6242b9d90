import { expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { FakeVnodeHost } from "../../testing/fake-vnode-host.ts";
import { VnodeRows } from "./vnode-rows.ts";

const cluster: KeptCluster = {
  name: "demo",
  tenant: "t",
  spec: readVirtualClusterSpec({}),
  version: "1.36.4",
  network: 7,
  phase: "Running",
  isWanted: true,
};
const worker = { slot: 0, name: "worker-1", size: { cpus: 2, memoryBytes: 4 }, isWanted: true };

test("workers are told with their size, their pods and whether they run, looked at every few seconds", async () => {
  const [vnodes, clock] = [new FakeVnodeHost(), new FakeClock()];
  const rows = new VnodeRows(vnodes, clock);
  expect(rows.of(cluster)).toEqual([]);
  vnodes.save("demo", worker);
  const stopped = { name: "worker-1", running: false, cpus: 2, memoryBytes: 4, pods: 0 };
  expect(rows.of(cluster)).toEqual([stopped]);
  vnodes.running.add("demo/worker-1");
  vnodes.podsOf.set("demo/worker-1", [{ namespace: "default", name: "web", uid: "1" }]);
  expect(rows.of(cluster)).toEqual([stopped]);
  await clock.advance(5_000);
  expect(rows.of(cluster)).toEqual([{ ...stopped, running: true, pods: 1, usedBytes: 3, cpuSeconds: 4 }]);
});

test("workers are told with what their volumes were asked for", async () => {
  const vnodes = new FakeVnodeHost();
  vnodes.save("demo", worker);
  await vnodes.makeVolume(cluster, worker, "pvc-a", 100);
  await vnodes.makeVolume(cluster, worker, "pvc-b", 20);
  const [row] = new VnodeRows(vnodes, new FakeClock()).of(cluster);
  expect(row).toMatchObject({ volumes: 2, volumeBytes: 120 });
});

test("workers are looked at anew when their cluster comes to another phase", () => {
  const vnodes = new FakeVnodeHost();
  const rows = new VnodeRows(vnodes, new FakeClock());
  vnodes.save("demo", worker);
  expect(rows.of({ ...cluster, phase: "Initializing" })).toMatchObject([{ running: false }]);
  vnodes.running.add("demo/worker-1");
  vnodes.save("demo", { ...worker, slot: 1, name: "worker-2" });
  expect(rows.of({ ...cluster, phase: "Initializing" })).toHaveLength(1);
  expect(rows.of(cluster)).toMatchObject([{ running: true }, { name: "worker-2" }]);
});

test("of a cluster without a network none runs", () => {
  const vnodes = new FakeVnodeHost();
  vnodes.save("demo", worker);
  vnodes.running.add("demo/worker-1");
  const { network: _none, ...without } = cluster;
  expect(new VnodeRows(vnodes, new FakeClock()).of(without)).toMatchObject([{ running: false, pods: 0 }]);
});

test("what goes while it is looked at is told as before, and breaks no report", async () => {
  const [vnodes, clock] = [new FakeVnodeHost(), new FakeClock()];
  const rows = new VnodeRows(vnodes, clock);
  vnodes.pods = () => {
    throw new Error("ENOENT");
  };
  vnodes.save("demo", worker);
  expect(rows.of(cluster)).toEqual([]);
  vnodes.pods = () => [];
  expect(rows.of(cluster)).toHaveLength(1);
  await clock.advance(5_000);
  vnodes.pods = () => {
    throw new Error("ENOENT");
  };
  expect(rows.of(cluster)).toHaveLength(1);
});
