import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, it } from "vitest";
import { clusterRows } from "./cluster-rows.ts";

const cluster = (over: Partial<KeptCluster>): KeptCluster =>
  ({ name: "demo", phase: "Running", version: "1.36.4", network: 1, ...over }) as KeptCluster;

function rowsOf(kept: KeptCluster, up: boolean) {
  const clock = new FakeClock(5_000);
  const [row] = clusterRows({
    host: {
      list: () => [kept],
      isUp: () => up,
      endpoint: () => "https://n1:16443",
      way: () => undefined,
      usage: () => ({ memoryBytes: 7, cpuSeconds: 2 }),
    },
    clock,
    figures: () => ({ pods: { running: 3 } as never }),
    ways: { lastWake: () => ({ last: { from: "warm", ms: 12.7 } as never, count: 4 }) },
    vnodes: () => [],
    standby: () => undefined,
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
    endpoint: "https://n1:16443",
    pods: { running: 3 },
    wakes: 4,
    lastWakeMs: 13,
    vnodes: [],
    memoryBytes: 7,
    cpuSeconds: 2,
    probedAt: 5_000,
  });
});

it("tells of one that sleeps, with its programs or without", () => {
  expect(rowsOf(cluster({ asleep: "warm" }), true)).toMatchObject({ power: "warm", asleep: true });
  const cold = rowsOf(cluster({ asleep: "cold" }), false);
  expect(cold).toMatchObject({ power: "cold", asleep: true });
  expect(cold).not.toHaveProperty("memoryBytes");
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
