import { expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { wantedVnodes } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { FakeClusterHost } from "../../testing/fake-cluster-host.ts";
import { FakeVnodeDevices } from "../../testing/fake-vnode-devices.ts";
import { FakeVnodeHost } from "../../testing/fake-vnode-host.ts";
import { KeepDevices } from "./keep-devices.ts";

const pools = [{ name: "big", count: 1, devices: { "example.com/gpu": 1 } }];

function world() {
  const [host, vnodes, devices, clock] = [
    new FakeClusterHost(),
    new FakeVnodeHost(),
    new FakeVnodeDevices(),
    new FakeClock(),
  ];
  const lines: string[] = [];
  const say = (_about: object, line: string): void => void lines.push(line);
  const keeper = new KeepDevices({ host, vnodes, devices, clock, log: { warn: say, error: say } as never });
  const add = (name: string, workerNodes: object): KeptCluster => {
    const spec = readVirtualClusterSpec({ workerNodes });
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
    for (const vnode of wantedVnodes(spec, [])) vnodes.save(name, vnode);
    return cluster;
  };
  return { keeper, devices, vnodes, lines, add };
}

test("workers that shall run and have devices are offered, and no others", async () => {
  const { keeper, devices, vnodes, add } = world();
  add("demo", { count: 1, pools });
  add("plain", { count: 2 });
  await keeper.look();
  expect([devices.offered, devices.left]).toEqual([["demo/big-1"], ["demo/big-1"]]);
  const [big] = vnodes.list("demo").filter(({ name }) => name === "big-1");
  if (big !== undefined) vnodes.save("demo", { ...big, isWanted: false });
  await keeper.look();
  expect([devices.offered, devices.left]).toEqual([["demo/big-1"], []]);
});

test("what hinders one is said once, and again when it is something else", async () => {
  const { keeper, devices, lines, add } = world();
  add("demo", { pools });
  devices.broken = "no kubelet";
  await keeper.look();
  await keeper.look();
  expect(lines).toEqual(["devices of big-1 of demo are not offered: no kubelet"]);
  devices.broken = undefined;
  await keeper.look();
  devices.broken = "no kubelet";
  await keeper.look();
  expect(lines).toHaveLength(2);
  keeper.close();
  expect(devices.left).toEqual([]);
});
