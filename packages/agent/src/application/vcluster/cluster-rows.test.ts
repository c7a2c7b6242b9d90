import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, it } from "vitest";
import { clusterRows } from "./cluster-rows.ts";

const cluster = (over: Partial<KeptCluster>): KeptCluster =>
  ({
    name: "demo",
    phase: "Running",
    version: "1.36.4",
    network: 1,
    spec: { volumeBytes: 9 },
    ...over,
  }) as KeptCluster;

function rowsOf(kept: KeptCluster, up: boolean) {
  const clock = new FakeClock(5_000);
  const [row] = clusterRows({
    host: {
      list: () => [kept],
      isUp: () => up,
      endpoint: () => "https://n1:16443",
      way: () => undefined,
      usage: () => ({ memoryBytes: 7, cpuSeconds: 2, startedAt: 1_500 }),
    },
    clock,
    figures: () => ({ pods: { running: 3 } as never }),
    ways: { lastWake: () => ({ last: { from: "warm", ms: 12.7 } as never, count: 4 }) },
    keptAwake: () => ({ reason: "Connections", message: "tenants are connected" }),
    vnodes: () => [],
    standby: () => undefined,
    waitingBytes: () => 4,
    formerTrustedUntil: () => 7,
  })();
  return row;
}

it("tells of a cluster that runs where it is, what it uses and how often it woke", () => {
  expect(rowsOf(cluster({ phaseAt: 1_000 }), true)).toEqual({
    name: "demo",
    version: "1.36.4",
    phase: "Running",
    power: "hot",
    readySince: 1_000,
    keptAwake: { reason: "Connections", message: "tenants are connected" },
    endpoint: "https://n1:16443",
    pods: { running: 3 },
    wakes: 4,
    lastWakeMs: 13,
    volumes: { bound: 9, waiting: 4 },
    vnodes: [],
    memoryBytes: 7,
    cpuSeconds: 2,
    cores: 0,
    uptimeSeconds: 3,
    probedAt: 5_000,
  });
});

it("tells how many CPUs it and its workers keep busy", async () => {
  const clock = new FakeClock(5_000);
  let [own, worker] = [2, 10];
  let isUp = true;
  const rows = clusterRows({
    host: {
      list: () => [cluster({})],
      isUp: () => isUp,
      endpoint: () => "https://n1:16443",
      way: () => undefined,
      usage: () => ({ memoryBytes: 7, cpuSeconds: own, startedAt: 0 }),
    },
    clock,
    figures: () => ({}),
    ways: { lastWake: () => undefined },
    keptAwake: () => undefined,
    vnodes: () => [{ name: "worker-1", cpuSeconds: worker } as never],
    standby: () => undefined,
    waitingBytes: () => undefined,
    formerTrustedUntil: () => undefined,
  });
  const cores = () => rows()[0]?.cores;
  expect(cores()).toBe(0);
  [own, worker] = [3, 24];
  await clock.advance(10_000);
  expect(cores()).toBe(1.5);
  // One that sleeps has workers that run on, and has used less than before.
  isUp = false;
  await clock.advance(10_000);
  expect(cores()).toBe(0);
  worker += 5;
  await clock.advance(10_000);
  expect(cores()).toBe(0.5);
});

it("tells of one that sleeps, with its programs or without", () => {
  expect(rowsOf(cluster({ asleep: "warm" }), true)).toMatchObject({ power: "warm", asleep: true });
  const cold = rowsOf(cluster({ asleep: "cold" }), false);
  expect(cold).toMatchObject({ power: "cold", asleep: true });
  expect(cold).not.toHaveProperty("memoryBytes");
});

it("looks at one that nothing runs of when something of it has changed, and at others always", () => {
  const looked: string[] = [];
  let kept = [cluster({ asleep: "cold" }), cluster({ name: "pods", asleep: "cold" })];
  let figures = {};
  let up = false;
  const rows = clusterRows({
    host: {
      list: () => kept,
      isUp: () => up,
      endpoint: () => "https://n1:16443",
      way: () => undefined,
      usage: () => ({ memoryBytes: 7, cpuSeconds: 2, startedAt: 1_500 }),
    },
    clock: new FakeClock(5_000),
    figures: () => figures,
    ways: { lastWake: () => undefined },
    keptAwake: () => undefined,
    vnodes: ({ name }) => {
      looked.push(name);
      return name === "pods" ? [{ name: "worker-1" } as never] : [];
    },
    standby: () => undefined,
    waitingBytes: () => undefined,
    formerTrustedUntil: () => undefined,
  });
  const first = rows();
  expect(rows()[0]).toBe(first[0]);
  expect(looked.splice(0)).toEqual(["demo", "pods", "pods"]);
  figures = { pods: { a: 1 } };
  expect(rows()[0]).toMatchObject({ pods: { a: 1 } });
  up = true;
  expect(rows()[0]).toMatchObject({ power: "cold", memoryBytes: 7 });
  up = false;
  kept = [cluster({ asleep: "cold", message: "new" })];
  expect(rows()).toMatchObject([{ message: "new", power: "cold" }]);
  expect(looked).toEqual(["demo", "pods", "demo", "pods", "demo"]);
});

it("names no way to one that has no network yet, nor to a part of one", () => {
  const { network: _network, ...without } = cluster({ phase: "Pending" });
  expect(rowsOf(without as KeptCluster, false)).not.toHaveProperty("endpoint");
  const part = rowsOf(
    cluster({ overlay: { at: 1, nodes: [] } as unknown as NonNullable<KeptCluster["overlay"]> }),
    true,
  );
  expect(part).toMatchObject({ isBranch: true });
  expect(part).not.toHaveProperty("endpoint");
});
