import { expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { FakeClusterHost } from "../../../testing/fake-cluster-host.ts";
import { FakeVnodeHost } from "../../../testing/fake-vnode-host.ts";
import { ClusterPhases } from "../cluster-phases.ts";
import { KeepCertificates } from "./keep-certificates.ts";
import { renewOperation } from "./renew-operation.ts";

const spec = readVirtualClusterSpec({ workerNodes: { count: 1 } });
const demo: KeptCluster = {
  name: "demo",
  tenant: "shop",
  spec,
  version: "1.36.4",
  network: 7,
  phase: "Running",
  isWanted: true,
};

async function world() {
  const [host, vnodes, clock] = [new FakeClusterHost(), new FakeVnodeHost(), new FakeClock()];
  const held: string[] = [];
  for (const name of ["demo", "fresh", "sleeps"])
    host.save({ ...demo, name, ...(name === "sleeps" ? { asleep: "cold" } : {}) });
  host.running.add("demo").add("fresh");
  vnodes.save("demo", { slot: 0, name: "worker-1", size: spec.workerSize, isWanted: true });
  const phases = new ClusterPhases(host, () => undefined);
  const api: ClusterApi = async (cluster, { path }) => {
    const gitVersion = `v${cluster.version}`;
    if (path === "/version") return { status: 200, body: { gitVersion } };
    const conditions = [{ type: "Ready", status: "True" }];
    return { status: 200, body: { status: { conditions, nodeInfo: { kubeletVersion: gitVersion } } } };
  };
  const ways = {
    hold: async (name: string): Promise<void> => void held.push(`hold ${name}`),
    unhold: (name: string): void => void held.push(`unhold ${name}`),
    tell: async (): Promise<void> => undefined,
  };
  const { engine } = testEngine();
  engine.register(renewOperation({ host, phases, ways, vnodes, api }));
  await engine.start();
  const due = new Set(["demo", "sleeps"]);
  const started: string[] = [];
  const start = host.start.bind(host);
  host.start = async (cluster, signal, say) => {
    started.push(cluster.name);
    await start(cluster, signal, say);
    due.delete(cluster.name);
  };
  const keeper = new KeepCertificates({
    host,
    isDue: (name) => due.has(name),
    authorities: { rotation: () => undefined },
    engine,
    clock,
    log: silentLogger,
  });
  return { host, vnodes, clock, held, started, due, keeper };
}

test("clusters that run are started again when a certificate would end soon, and clients wait meanwhile", async () => {
  const { host, vnodes, held, started, keeper } = await world();
  await keeper.look();
  expect([started, held]).toEqual([["demo"], ["hold demo", "unhold demo"]]);
  expect(vnodes.restarted).toEqual(["demo/worker-1/kubelet", "demo/worker-1/kube-proxy"]);
  expect(host.get("demo")).toMatchObject({ phase: "Running" });
  expect(host.get("demo")?.isSwitching).toBeUndefined();
  await keeper.look();
  expect(started).toEqual(["demo"]);
});

test("one that does not come back sleeps, so that whoever connects has it tried again", async () => {
  const { host, held, keeper } = await world();
  host.start = async () => {
    throw new Error("no more");
  };
  await keeper.look();
  expect(host.get("demo")).toMatchObject({ phase: "Running", asleep: "cold" });
  expect(host.get("demo")?.isSwitching).toBeUndefined();
  expect(held.at(-1)).toBe("unhold demo");
});

test("it is looked at again and again, and what cannot be judged is no end of it", async () => {
  const { clock, keeper, started, host } = await world();
  const isUp = host.isUp.bind(host);
  let looks = 0;
  host.isUp = (cluster) => {
    if (looks++ === 0) throw new Error("away");
    return isUp(cluster);
  };
  const following = keeper.follow();
  await expect
    .poll(async () => {
      await clock.advance(6 * 3_600_000);
      return started;
    })
    .toEqual(["demo"]);
  keeper.close();
  await clock.advance(6 * 3_600_000);
  await following;
});
