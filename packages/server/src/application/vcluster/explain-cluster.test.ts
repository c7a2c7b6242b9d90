import { expect, test } from "vitest";
import type { AccessView } from "@gpve/domain/request/context.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import { readPolicy } from "@gpve/domain/scheduler/policy.ts";
import { aNode, GiB } from "@gpve/domain/scheduler/testing/placement-world.ts";
import { clusterShares } from "@gpve/domain/vcluster/cluster-shares.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { joinedNode } from "../../testing/joined-node.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { nodeRecords } from "../node/collections.ts";
import { ExplainCluster } from "./explain-cluster.ts";
import { writeDecisions } from "./placing/cluster-decisions.ts";

const NODES = ["n1", "n2", "n3", "n4"];

async function world() {
  const records = new MemoryRecords();
  const make = (name: string, node: string, spec: Record<string, unknown> = {}) => ({
    name,
    tenant: "shop",
    node,
    spec: readVirtualClusterSpec(spec),
    madeBy: "",
  });
  const ruled = make("ruled", "n1", { scheduling: { nodeAffinity: { required: ["disk=fast"] } } });
  await records.transact((tx) => {
    for (const each of [make("demo", "n1"), make("other", "n1"), make("third", "n2"), ruled])
      tx.put(vclusterCollection, each.name, each);
    tx.put(nodeRecords, "n3", { ...joinedNode("n3"), unschedulable: true });
  });
  const views = NODES.map((node) => ({
    node,
    health: node === "n4" ? "offline" : "online",
    // Full: what is there has its room.
    report: { usage: { memory: { available: node === "n1" ? 0 : 8 * GiB } } },
  }));
  const board = {
    list: () => views,
    get: (node: string) => views.find((view) => view.node === node),
  } as unknown as NodeBoard;
  const state = new ClusterState([
    aNode("n1", { labels: { disk: "fast" } }),
    aNode("n2"),
    aNode("n3", { unschedulable: true }),
    aNode("n4", { away: "its agent does not report" }),
  ]);
  for (const { value } of records.collection(vclusterCollection).list())
    for (const share of clusterShares(value)) state.place(share);
  const explained = new ExplainCluster({
    records,
    board,
    view: { state: () => state },
    placer: { policyFor: async () => readPolicy() },
  });
  const story = (key: string, seesNodes = true) =>
    explained.story(key, {
      access: { has: () => seesNodes } as unknown as AccessView,
      signal: new AbortController().signal,
    });
  return { records, story };
}

test("one without rules goes by the scheduler too, where fewer others are, and every node says why not there", async () => {
  const { story } = await world();
  expect(await story("demo")).toMatchObject({
    id: "vc/shop/demo",
    nodes: ["n1"],
    decisions: [],
    now: { node: "n2", strategy: "balanced", nodes: 4, feasible: 2, refused: { NodeReady: 1 } },
  });
  const { verdicts } = (await story("demo")).now;
  expect(
    verdicts.map(({ node, parts, refusals }) => [node, parts?.["ClusterSpread"], refusals[0]?.filter]),
  ).toEqual([
    ["n2", 50, undefined],
    ["n1", 33.3, undefined],
    ["n3", undefined, "NodeUnschedulable"],
    ["n4", undefined, "NodeReady"],
  ]);
  const { verdicts: others } = (await story("third")).now;
  expect(others.find(({ node }) => node === "n1")?.refusals[0]?.why).toContain("a control plane takes");
  await expect(story("none")).rejects.toThrow("there is no virtual cluster none");
});

test("one with rules goes where the scheduler says; who may not see nodes learns of its own", async () => {
  const { story } = await world();
  const { now } = await story("ruled", false);
  expect(now).toMatchObject({ node: "n1", strategy: "balanced", nodes: 4, feasible: 1 });
  expect(now.verdicts).toEqual([{ node: "n1", refusals: [] }]);
});

test("what was decided is told as it was, without a standby that follows no more", async () => {
  const { records, story } = await world();
  const explanation = { ...(await story("demo")).now, node: "n1" };
  const decided = { node: "n1", at: 0, by: "joe@pve", lost: 1, explanation } as const;
  await records.transact((tx) =>
    writeDecisions(tx, "demo", [
      { ...decided, part: "control-plane" },
      { ...decided, part: "standby", node: "n2" },
    ]),
  );
  const at = "1970-01-01T00:00:00.000Z";
  expect((await story("demo")).decisions).toEqual([{ ...decided, part: "control-plane", at }]);
  const [seen] = (await story("demo", false)).decisions;
  expect(seen?.explanation.verdicts).toEqual([{ node: "n1", refusals: [] }]);
});
