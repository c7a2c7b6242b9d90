// A cluster with rules of its own goes where the scheduler says, of the nodes that can have it.
import { expect, test } from "vitest";
import type { AccessView } from "@gpve/domain/request/context.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import type { PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import { readPolicy } from "@gpve/domain/scheduler/policy.ts";
import { aNode, GiB } from "@gpve/domain/scheduler/testing/placement-world.ts";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { MemoryRecords } from "../../../testing/memory-records.ts";
import { Placer } from "../../scheduler/placer.ts";
import { SchedulerFigures } from "../../scheduler/scheduler-figures.ts";
import { placeNew } from "./place-new.ts";

const NODES = [
  aNode("n1", { labels: { disk: "slow" } }),
  aNode("n2", {
    labels: { disk: "fast" },
    taints: [{ key: "dedicated", value: "db", effect: "NoSchedule" }],
  }),
  aNode("n3", { labels: { disk: "fast" }, unschedulable: true }),
  aNode("n4", { allocatable: { cpu: 8, memory: 64 * GiB } }),
];

async function placed(scheduling: object, more: object = {}, maySeeNodes = true) {
  const views = NODES.map(({ name }) => ({
    node: name,
    health: "online",
    address: "192.0.2.1",
    report: { usage: { memory: { available: 8 * GiB } } },
  }));
  const get = (node: string) => views.find((view) => view.node === node);
  const board = { list: () => views, get } as unknown as NodeBoard;
  const records = new MemoryRecords();
  const asked: PlacementRequest[] = [];
  const placer = new Placer({
    records,
    view: { state: () => new ClusterState(NODES), onChange: () => () => undefined },
    policy: readPolicy(),
    extend: async (request) => {
      asked.push(request);
      return [];
    },
    clock: new FakeClock(),
    figures: new SchedulerFigures(),
    log: silentLogger,
  });
  const spec = readVirtualClusterSpec({ scheduling, ...more });
  const access = { has: () => maySeeNodes } as unknown as AccessView;
  const { signal } = new AbortController();
  const places = await placeNew(
    { records, board, placer, clock: new FakeClock() },
    { name: "demo", tenant: "shop", spec },
    { ctx: { signal, actor: undefined, access }, allow: () => undefined, write: (_tx, found) => found },
  );
  return { ...places, asked };
}

const node = async (scheduling: object, more: object = {}): Promise<string> =>
  (await placed(scheduling, more)).node;

test("goes to the node that its rules prefer, and past a taint that they tolerate", async () => {
  expect(await node({ nodeAffinity: { required: ["disk=slow"] } })).toBe("n1");
  expect(await node({ nodeAffinity: { preferred: [{ nodes: "disk=slow", weight: 100 }] } })).toBe("n1");
  const tolerations = [{ key: "dedicated", operator: "Exists" }];
  expect(await node({ nodeAffinity: { required: ["disk=fast"] }, tolerations })).toBe("n2");
  // Named, it goes there all the same.
  expect(await node({ nodeAffinity: { required: ["disk=fast"] } }, { node: "n1" })).toBe("n1");
});

test("is refused with what the scheduler says of every node", async () => {
  await expect(node({ nodeAffinity: { required: ["disk=fast"] } })).rejects.toThrow(
    /n1: .*disk=fast.*n2: .*taint.*n3: .*(cordoned|schedul).*n4: /,
  );
  await expect(placed({ nodeAffinity: { required: ["disk=fast"] } }, {}, false)).rejects.toThrow(
    /^no node can have the virtual cluster: 0 of 4 nodes can take it: 2 by NodeAffinity, 1 by NodeUnschedulable, 1 by TaintToleration$/,
  );
});

test("asks for what its workers take", async () => {
  const workerNodes = { count: 2, resources: { cpu: 2, memory: "4Gi" } };
  const { asked } = await placed({ strategy: "utilization" }, { workerNodes });
  expect(asked).toMatchObject([{ kind: "vc", demand: { cpu: 4, memory: 8 * GiB } }]);
  const dealt = await placed({ strategy: "utilization", spread: true }, { workerNodes });
  expect(dealt.asked).toMatchObject([{ demand: { cpu: 4, memory: 8 * GiB } }]);
  // Who has no rules goes by the scheduler too, and who has said where is not asked about.
  expect((await placed({})).asked).toMatchObject([{ id: "vc/shop/demo/control-plane", rules: {} }]);
  expect((await placed({}, { node: "n3" })).asked).toEqual([]);
});

test("of several replicas has all of them where its rules let it", async () => {
  const tolerations = [{ key: "dedicated", operator: "Exists" }];
  const controlPlane = { tier: "Enterprise" };
  const { spread } = await placed({ strategy: "ha-spread", tolerations }, { controlPlane });
  const nodes = spread?.nodes.map((each) => each.node);
  expect(nodes?.toSorted()).toEqual(["n1", "n2", "n4"]);
});

test("shows its rules as they were said, and refuses what no guest could say either", () => {
  const scheduling = { strategy: "ha-spread", nodeAffinity: { required: ["disk=fast"] }, spread: true };
  const spec = readVirtualClusterSpec({ scheduling });
  expect(shownVirtualClusterSpec(spec)["scheduling"]).toEqual(scheduling);
  expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
  expect(() => readVirtualClusterSpec({ scheduling: { near: "a in" } })).toThrow("spec.scheduling.near");
});
