import { expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const move = {
  guest: "vm/100",
  from: "n1",
  to: "n2",
  rule: "TaintToleration",
  why: "its taint",
  state: "pending",
};
const plan = (moves: readonly object[]) => ({
  apiVersion: "gpve.io/v1",
  kind: "RebalancePlan",
  metadata: { name: "p1", resourceVersion: "1", labels: {}, annotations: {}, uid: "u", generation: 1 },
  spec: {},
  status: {
    phase: "Proposed",
    moves,
    unsolved: [{ rule: "NodeAffinity", guest: "vm/101", why: "no node" }],
    imbalance: { before: 40, after: 10 },
  },
});

test("a plan shows its moves and waits for approval", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.on("POST /api/v1/rebalanceplans", { status: 201, body: plan([move]) });
  const ran = await ctl.run([
    "rebalance",
    "plan",
    "--name",
    "p1",
    "--balance",
    "--max-moves",
    "3",
    "--threshold",
    "20",
  ]);
  expect(ran.out).toMatch(/^vm\/100 +n1 +n2 +TaintToleration +its taint$/m);
  expect(ran.err).toContain("vm/101: NodeAffinity is not put right: no node");
  expect(ran.err).toContain("40 % now, 10 % then");
  expect(ran.out + ran.err).toContain("Plan p1 waits: gpvectl rebalance approve p1.");
  expect(JSON.parse(ctl.api.last("POST /api/v1/rebalanceplans").body)).toMatchObject({
    metadata: { name: "p1" },
    spec: { balance: true, maxMoves: 3, threshold: 20 },
  });
  ctl.api.on("PATCH /api/v1/rebalanceplans/p1", { body: plan([move]) });
  expect((await ctl.run(["rebalance", "approve", "p1"])).code).toBe(0);
  expect(JSON.parse(ctl.api.last("PATCH /api/v1/rebalanceplans/p1").body)).toEqual({
    spec: { approved: true },
  });
});

test("says where there is nothing to move, what is carried out at once, and what is no plan", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.on("POST /api/v1/rebalanceplans", { status: 201, body: plan([]) });
  const none = await ctl.run(["rebalance", "plan"]);
  expect(none.out + none.err).toContain("There is nothing to move.");
  expect(JSON.parse((await ctl.run(["rebalance", "plan", "--output", "json"])).out)).toEqual(plan([]));
  ctl.api.on("POST /api/v1/rebalanceplans", { status: 201, body: plan([move]) });
  const now = await ctl.run(["rebalance", "plan", "--approve"]);
  expect(now.out + now.err).toContain("is carried out: gpvectl describe rebalanceplan plan-");
  ctl.api.on("POST /api/v1/rebalanceplans", { status: 201, body: {} });
  expect((await ctl.run(["rebalance", "plan"])).err).toContain("did not show it");
});
