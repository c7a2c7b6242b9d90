// A cluster with rules of its own goes where the scheduler says, of the nodes that can have it.
import { expect, test } from "vitest";
import type { AccessView } from "@gpve/domain/request/context.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import { explainAnew } from "@gpve/domain/scheduler/explain.ts";
import type { PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import { readPolicy } from "@gpve/domain/scheduler/policy.ts";
import { aNode, GiB } from "@gpve/domain/scheduler/testing/placement-world.ts";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { withOrder } from "./order-nodes.ts";
import { placeCluster } from "./place-cluster.ts";
import { placedReplicas } from "./replicas/replica-nodes.ts";

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
  const asked: PlacementRequest[] = [];
  const placer = {
    preview: async (request: PlacementRequest) => {
      asked.push(request);
      return explainAnew(new ClusterState(NODES), request, readPolicy());
    },
  };
  const spec = readVirtualClusterSpec({ scheduling, ...more });
  const cluster = { name: "demo", tenant: "shop", spec };
  const deps = { records: new MemoryRecords(), board, placer };
  const access = { has: () => maySeeNodes } as unknown as AccessView;
  const place = await withOrder(deps, cluster, { signal: new AbortController().signal, access });
  return { place, spec, asked };
}

const node = async (scheduling: object, more: object = {}): Promise<string> => {
  const { place, spec } = await placed(scheduling, more);
  return placeCluster(place, spec);
};

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
  const { place, spec } = await placed({ nodeAffinity: { required: ["disk=fast"] } }, {}, false);
  expect(() => placeCluster(place, spec)).toThrow(
    "n1: refused by NodeAffinity; n2: refused by TaintToleration; n3: refused by NodeUnschedulable; n4: refused by NodeAffinity",
  );
});

test("asks for what its workers take", async () => {
  const workerNodes = { count: 2, resources: { cpu: 2, memory: "4Gi" } };
  const { asked } = await placed({ strategy: "utilization" }, { workerNodes });
  expect(asked).toMatchObject([{ kind: "vc", demand: { cpu: 4, memory: 8 * GiB } }]);
  const dealt = await placed({ strategy: "utilization", spread: true }, { workerNodes });
  expect(dealt.asked).toMatchObject([{ demand: { cpu: 2, memory: 4 * GiB } }]);
  const { asked: none } = await placed({ spread: true });
  expect(none).toEqual([]);
});

test("of several replicas has all of them where its rules let it", async () => {
  const tolerations = [{ key: "dedicated", operator: "Exists" }];
  const controlPlane = { tier: "Enterprise" };
  const { place, spec } = await placed({ strategy: "ha-spread", tolerations }, { controlPlane });
  const home = placeCluster(place, spec);
  const nodes = placedReplicas(place, spec, home).map((each) => each.node);
  expect(nodes.toSorted()).toEqual(["n1", "n2", "n4"]);
});

test("shows its rules as they were said, and refuses what no guest could say either", () => {
  const scheduling = { strategy: "ha-spread", nodeAffinity: { required: ["disk=fast"] }, spread: true };
  const spec = readVirtualClusterSpec({ scheduling });
  expect(shownVirtualClusterSpec(spec)["scheduling"]).toEqual(scheduling);
  expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
  expect(() => readVirtualClusterSpec({ scheduling: { near: "a in" } })).toThrow("spec.scheduling.near");
});
