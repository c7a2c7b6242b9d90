// Who follows a cluster: a node that it could have been placed on, by its rules where it has some.
import { expect, test } from "vitest";
import { given } from "@gpve/contracts/given.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import type { PlacedGuest } from "@gpve/domain/scheduler/model.ts";
import { readPolicy } from "@gpve/domain/scheduler/policy.ts";
import { aNode, aRequest, GiB } from "@gpve/domain/scheduler/testing/placement-world.ts";
import type { VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { MemoryRecords } from "../../../testing/memory-records.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { Placer } from "../../scheduler/placer.ts";
import { SchedulerFigures } from "../../scheduler/scheduler-figures.ts";
import { StandbyChoice } from "./choose-standby.ts";

const NODES = [
  aNode("n1"),
  aNode("n2", { taints: [{ key: "dedicated", value: "db", effect: "NoSchedule" }] }),
  aNode("n3", { labels: { disk: "fast" } }),
  aNode("n4", { labels: { disk: "slow" } }),
];

async function spares(
  scheduling: object | undefined,
  more: Partial<VirtualClusterRecord> = {},
  { wanted = {}, guests = [] }: { readonly wanted?: object; readonly guests?: readonly PlacedGuest[] } = {},
) {
  const views = NODES.map(({ name }) => ({
    node: name,
    health: "online",
    address: "192.0.2.1",
    report: { usage: { memory: { available: 8 * GiB } } },
  }));
  const get = (node: string) => views.find((view) => view.node === node);
  const board = { list: () => views, get } as unknown as NodeBoard;
  const records = new MemoryRecords();
  const clock = new FakeClock();
  const placer = new Placer({
    records,
    view: { state: () => new ClusterState(NODES, guests), onChange: () => () => undefined },
    policy: readPolicy(),
    extend: undefined,
    clock,
    figures: new SchedulerFigures(),
    log: silentLogger,
  });
  const spec = readVirtualClusterSpec({ ...wanted, ...given({ scheduling }) });
  const record = { name: "demo", tenant: "shop", node: "n1", spec, ...more } as VirtualClusterRecord;
  const choice = new StandbyChoice({ records, board, placer, clock });
  const chosen = await choice.of(record, new AbortController().signal);
  const { verdicts = [] } = chosen?.explanation ?? {};
  return verdicts.flatMap(({ node, refusals }) => (refusals.length === 0 ? [node] : []));
}

test("its own node is none, nor one that it has left behind", async () => {
  expect((await spares(undefined)).toSorted()).toEqual(["n3", "n4"]);
  expect(await spares(undefined, { abandoned: ["n3"] })).toEqual(["n4"]);
});

test("one that is full is none, where its workers would have to go there with it", async () => {
  const request = aRequest("vm/1", {}, { demand: { cpu: 7, memory: GiB } });
  const guests = [{ request, node: "n3", counts: true }];
  const wanted = { workerNodes: { count: 1 } };
  expect(await spares(undefined, {}, { wanted, guests })).toEqual(["n4"]);
});

test("where all are full, even of more than they have, one of them is better than none: it takes no room while it follows", async () => {
  const full = (node: string): PlacedGuest => ({
    request: aRequest(`vm/${node}`, {}, { demand: { cpu: 99, memory: 999 * GiB } }),
    node,
    counts: true,
  });
  const wanted = { workerNodes: { count: 1 } };
  const guests = ["n1", "n3", "n4"].map(full);
  expect((await spares(undefined, {}, { wanted, guests })).toSorted()).toEqual(["n3", "n4"]);
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
