// A cluster with rules of its own goes on where these let it.
import { expect, test } from "vitest";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import { explainAnew } from "@gpve/domain/scheduler/explain.ts";
import type { PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import { readPolicy } from "@gpve/domain/scheduler/policy.ts";
import { aNode, GiB } from "@gpve/domain/scheduler/testing/placement-world.ts";
import type { VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { MemoryRecords } from "../../../testing/memory-records.ts";
import { sparesOf } from "./standby-spares.ts";

const NODES = [
  aNode("n1"),
  aNode("n2", { taints: [{ key: "dedicated", value: "db", effect: "NoSchedule" }] }),
  aNode("n3", { labels: { disk: "fast" } }),
  aNode("n4", { labels: { disk: "slow" } }),
];

async function spares(scheduling: object | undefined, more: Partial<VirtualClusterRecord> = {}) {
  const views = NODES.map(({ name }) => ({
    node: name,
    health: "online",
    address: "192.0.2.1",
    report: { usage: { memory: { available: 8 * GiB } } },
  }));
  const get = (node: string) => views.find((view) => view.node === node);
  const board = { list: () => views, get } as unknown as NodeBoard;
  const placer = {
    preview: async (request: PlacementRequest) => explainAnew(new ClusterState(NODES), request, readPolicy()),
  };
  const spec = readVirtualClusterSpec(scheduling === undefined ? {} : { scheduling });
  const record = { name: "demo", tenant: "shop", node: "n1", spec, ...more } as VirtualClusterRecord;
  return sparesOf({ records: new MemoryRecords(), board, placer }, record, new AbortController().signal);
}

test("its own node is none, nor one that it has left behind", async () => {
  expect(await spares(undefined)).toEqual(["n2", "n3", "n4"]);
  expect(await spares(undefined, { abandoned: ["n2"] })).toEqual(["n3", "n4"]);
});

test("those that its rules refuse are none, and the one that they prefer comes first", async () => {
  expect(await spares({ nodeAffinity: { required: ["disk=fast"] } })).toEqual(["n3"]);
  expect(await spares({ nodeAffinity: { preferred: [{ nodes: "disk=slow", weight: 100 }] } })).toEqual([
    "n4",
    "n3",
  ]);
  const tolerations = [{ key: "dedicated", operator: "Exists" }];
  expect(await spares({ nodeAffinity: { required: ["disk=none"] }, tolerations })).toEqual([]);
});
