import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ClusterState } from "./cluster-state.ts";
import { decidePlacement } from "./decide.ts";
import type { PlacedGuest, SchedulingRules } from "./model.ts";
import { simulateLoss } from "./node-loss.ts";
import { readPolicy } from "./policy.ts";
import {
  imbalanceOf,
  planRebalance,
  steadyRounds,
  violationsOf,
  type RebalanceOptions,
} from "./rebalance.ts";
import { aNode, anyNodes, anyRequests, aRequest, GiB } from "./testing/placement-world.ts";

const policy = readPolicy();
const options: RebalanceOptions = {
  maxMoves: 10,
  threshold: 30,
  margin: 10,
  balance: true,
  resting: new Set(),
  immovable: new Map(),
};
const on = (node: string, id: string, rules: SchedulingRules = {}, labels = {}): PlacedGuest => ({
  request: aRequest(id, rules, { labels }),
  node,
  counts: true,
});

describe("a plan", () => {
  it("puts named rules right first, with as few moves as it can", () => {
    const apart = { antiAffinity: { required: [{ guests: "app=web" }] } };
    const state = new ClusterState(
      [aNode("n1"), aNode("n2", { taints: [{ key: "gone", effect: "NoSchedule" }] }), aNode("n3")],
      [
        on("n1", "vm/100", apart, { app: "web" }),
        on("n1", "vm/101", apart, { app: "web" }),
        on("n2", "vm/102"),
      ],
    );
    const plan = planRebalance(state, policy, options);
    expect(plan.violations.map(({ rule, guest }) => `${rule} ${guest}`)).toEqual([
      "TaintToleration vm/102",
      "GuestAffinity vm/100",
      "GuestAffinity vm/101",
    ]);
    expect(plan.moves.map(({ rule, guest, to }) => `${rule} ${guest} ${to}`)).toEqual([
      "TaintToleration vm/102 n3",
      "GuestAffinity vm/100 n3",
    ]);
    expect(plan.unsolved).toEqual([]);
    expect([...state.guests()].map(({ node }) => node)).toEqual(["n1", "n1", "n2"]);
  });

  it("names what no move puts right", () => {
    const needsSsd = { nodeAffinity: { required: ["disk=ssd"] } };
    const state = new ClusterState([aNode("n1"), aNode("n2")], [on("n1", "vm/100", needsSsd)]);
    const [unsolved] = planRebalance(state, policy, options).unsolved;
    expect(unsolved?.why).toContain("0 of 2 nodes can take it: 2 by NodeAffinity");
    const fixed = planRebalance(state, policy, { ...options, immovable: new Map([["vm/100", "it stays"]]) })
      .unsolved[0];
    expect(fixed?.why).toContain("it stays");
    const cut = planRebalance(state, policy, { ...options, maxMoves: 0 }).unsolved[0];
    expect(cut?.why).toContain("the plan has its 0 moves already");
  });

  it("relieves a node that gives more than it may", () => {
    const guests = Array.from({ length: 10 }, (_, at) => on("n1", `vm/${100 + at}`));
    const state = new ClusterState([aNode("n1"), aNode("n2")], guests);
    const plan = planRebalance(state, policy, { ...options, balance: false });
    expect(plan.moves).toHaveLength(2);
    expect(plan.moves.every(({ rule }) => rule === "NodeResourcesFit")).toBe(true);
  });

  it("evens nodes out only where it is asked to, beyond the threshold, while a move is worth it", () => {
    const guests = Array.from({ length: 6 }, (_, at) => on("n1", `vm/${100 + at}`));
    const state = new ClusterState([aNode("n1"), aNode("n2"), aNode("n3", { unschedulable: true })], guests);
    expect(imbalanceOf(state)).toBe(75);
    expect(planRebalance(state, policy, { ...options, balance: false }).moves).toEqual([]);
    expect(planRebalance(state, policy, { ...options, threshold: 80 }).moves).toEqual([]);
    const plan = planRebalance(state, policy, options);
    expect(plan.moves).toHaveLength(2);
    expect(plan.imbalance).toEqual({ before: 75, after: 25 });
    expect(plan.moves[0]?.why).toContain("75 % between the fullest and the emptiest");
    const resting = new Set(guests.map(({ request }) => request.id));
    expect(planRebalance(state, policy, { ...options, resting }).moves).toEqual([]);
    expect(planRebalance(state, policy, { ...options, margin: 60 }).moves).toEqual([]);
    expect([1, 2].map((rounds) => steadyRounds(rounds, 40, 30))).toEqual([2, 3]);
    expect(steadyRounds(5, 30, 30)).toBe(0);
  });

  it("never breaks a rule, nor fills a node beyond what it may give, whatever the cluster", () => {
    fc.assert(
      fc.property(anyNodes, anyRequests, (nodes, requests) => {
        const state = new ClusterState(nodes);
        for (const request of requests) {
          const { node } = decidePlacement(state, request, policy);
          if (node !== undefined) state.place({ request, node, counts: true });
        }
        const before = violationsOf(state, policy).map(({ rule, guest }) => `${rule} ${guest}`);
        const plan = planRebalance(state, policy, { ...options, threshold: 10 });
        for (const { guest, to, from } of plan.moves) {
          const found = state.guest(guest);
          expect(found?.node).toBe(from);
          if (found !== undefined) state.place({ ...found, node: to });
        }
        for (const at of nodes.keys()) {
          expect(state.cpuUsed[at]).toBeLessThanOrEqual(state.cpu[at] ?? 0);
          expect(state.memoryUsed[at]).toBeLessThanOrEqual(state.memory[at] ?? 0);
        }
        const hard = (rule: string): boolean =>
          !rule.startsWith("TopologySpread") && !rule.startsWith("MaxHops");
        const after = violationsOf(state, policy).map(({ rule, guest }) => `${rule} ${guest}`);
        expect(after.filter(hard).filter((each) => !before.includes(each))).toEqual([]);
      }),
      { numRuns: 50 },
    );
  });
});

describe("the loss of a node", () => {
  it("starts guests where HA says, in its order, and says what would not fit or stay down", () => {
    const guests: PlacedGuest[] = [
      on("n1", "vm/100"),
      on("n1", "vm/101"),
      on("n1", "vm/102"),
      on("n1", "vm/105"),
      { ...on("n1", "vm/103"), counts: false },
      on("n2", "vm/104"),
    ];
    const state = new ClusterState([aNode("n1"), aNode("n2")], guests);
    const why = "it needs 1024 MiB of memory, 1 MiB are free";
    const recovery = new Map([
      ["vm/101", { to: "n2" }],
      ["vm/100", { refusals: [{ node: "n2", why }] }],
      ["vm/103", { to: "n2" }],
      ["vm/105", { left: "HA is disarmed" }],
    ]);
    expect(simulateLoss(state, ["n1"], policy, recovery)).toEqual({
      restarted: [{ guest: "vm/101", from: "n1", to: "n2" }],
      stranded: [
        {
          guest: "vm/100",
          from: "n1",
          why: "none of 1 nodes can take it",
          verdicts: [{ node: "n2", refusals: [{ filter: "Recovery", why }] }],
        },
      ],
      down: [
        { guest: "vm/105", from: "n1", why: "HA is disarmed" },
        { guest: "vm/102", from: "n1", why: "it is not under HA" },
      ],
      stopped: ["vm/103"],
    });
    expect(state.nodes).toHaveLength(2);
  });

  it("places virtual clusters by the scheduler, beside what HA has started", () => {
    const of = (id: string, cpu: number, priority = 0): PlacedGuest => ({
      request: { ...aRequest(id, { priority }, { demand: { cpu, memory: GiB } }), kind: "vc" },
      node: "n1",
      counts: true,
    });
    const big: PlacedGuest = {
      ...on("n1", "vm/100"),
      request: aRequest("vm/100", {}, { demand: { cpu: 3, memory: GiB } }),
    };
    const tied = { ...of("vc/c", 1), tied: "its store is on this node alone" };
    const state = new ClusterState([aNode("n1"), aNode("n2")], [big, of("vc/a", 4), of("vc/b", 4, 5), tied]);
    const outcome = simulateLoss(state, ["n1"], policy, new Map([["vm/100", { to: "n2" }]]));
    expect(outcome.restarted.map(({ guest }) => guest)).toEqual(["vm/100", "vc/b"]);
    expect(outcome.stranded.map(({ guest, why }) => `${guest}: ${why}`)).toEqual([
      "vc/a: 0 of 1 nodes can take it: 1 by NodeResourcesFit",
      "vc/c: its store is on this node alone",
    ]);
    expect(outcome.stranded[0]?.verdicts[0]?.refusals[0]?.why).toContain("1 of 4 CPUs are free");
  });
});
