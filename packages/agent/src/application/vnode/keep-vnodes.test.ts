import { expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { FakeClusterHost } from "../../testing/fake-cluster-host.ts";
import { FakeClusterApi, FakeVnodeHost } from "../../testing/fake-vnode-host.ts";
import { KeepVnodes } from "./keep-vnodes.ts";

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function world() {
  const [host, vnodes, api, clock] = [
    new FakeClusterHost(),
    new FakeVnodeHost(),
    new FakeClusterApi(),
    new FakeClock(),
  ];
  for (const name of ["slow", "other"]) {
    const spec = readVirtualClusterSpec({ workerNodes: { count: 1 } });
    const cluster: KeptCluster = {
      name,
      tenant: "t",
      spec,
      version: "1.36.4",
      network: 7,
      phase: "Running",
      isWanted: true,
    };
    host.save(cluster);
    host.running.add(name);
    vnodes.save(name, { slot: 0, name: "worker-1", size: { cpus: 1, memoryBytes: 1 }, isWanted: true });
  }
  const lines: string[] = [];
  const say = (about: object): void => void lines.push(JSON.stringify(about));
  const log = { warn: say, error: say } as unknown as Logger;
  const keeper = (call: ClusterApi = api.call): KeepVnodes =>
    new KeepVnodes({ host, vnodes, api: call, clock, log, changed: () => undefined });
  return { vnodes, api, clock, lines, keeper };
}

test("a cluster whose API is made to take its time keeps the workers of no other waiting", async () => {
  const { vnodes, api, clock, lines, keeper } = world();
  vnodes.running.add("slow/worker-1");
  // As a call that somebody's webhook holds up: it ends when whoever asks gives up.
  const call: ClusterApi = async (cluster, request, signal) => {
    if (cluster.name === "other") return api.call(cluster, request, signal);
    return new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    });
  };
  const looked = keeper(call).look();
  await settle();
  expect(vnodes.running.has("other/worker-1")).toBe(true);
  await clock.advance(15_000);
  await looked;
  expect(lines.join()).toContain("takes longer than 15 s");
});

test("a worker whose repair takes its time is waited for by those of its cluster alone", async () => {
  const { vnodes, clock, keeper } = world();
  vnodes.running.add("other/worker-1");
  const repair = vnodes.repair.bind(vnodes);
  let isSlow = true;
  let begun = 0;
  vnodes.repair = async (cluster, vnode) => {
    if (cluster.name === "slow") begun++;
    if (cluster.name === "slow" && isSlow) await new Promise(() => undefined);
    await repair(cluster, vnode);
  };
  const keeping = keeper();
  keeping.begin();
  await settle();
  expect(begun).toBe(1);
  vnodes.running.delete("other/worker-1");
  await clock.advance(10_000);
  await settle();
  expect(vnodes.running.has("other/worker-1")).toBe(true);
  isSlow = false;
  await clock.advance(60_000);
  // Not once more beside itself.
  expect(begun).toBe(1);
  keeping.close();
});
