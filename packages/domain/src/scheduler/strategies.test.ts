import { describe, expect, it } from "vitest";
import { ClusterState } from "./cluster-state.ts";
import { decidePlacement } from "./decide.ts";
import { explain } from "./explain.ts";
import { guestLabels, type PlacementRequest, type SchedulingRules } from "./model.ts";
import { readPolicy } from "./policy.ts";
import { aNode, aRequest, GiB } from "./testing/placement-world.ts";

const policy = readPolicy();
const zoned = ["n1", "n2", "n3", "n4"].map((name, at) =>
  aNode(name, {
    labels: { "topology.gpve.io/zone": at < 2 ? "a" : "b", "topology.gpve.io/rack": `r${at % 2}` },
  }),
);

function placeMany(
  state: ClusterState,
  count: number,
  rules: SchedulingRules,
  more: Partial<PlacementRequest> = {},
) {
  return Array.from({ length: count }, (_, at) => {
    const request = aRequest(`vm/${100 + at}`, rules, more);
    const { node } = decidePlacement(state, request, policy);
    if (node !== undefined) state.place({ request, node, counts: true });
    return node;
  });
}

describe("strategies", () => {
  it("balanced evens nodes out", () => {
    const state = new ClusterState(zoned);
    placeMany(state, 8, {});
    expect([...state.cpuUsed]).toEqual([2, 2, 2, 2]);
  });

  it("spreads virtual clusters where nodes are equal, and packs them where it fills nodes up", () => {
    const nodes = ["n1", "n2"].map((name) => aNode(name));
    const vc = { kind: "vc", demand: { cpu: 0, memory: 0 }, labels: { "gpve.io/kind": "vc" } } as const;
    const state = new ClusterState(nodes);
    const spread = placeMany(state, 6, {}, vc);
    expect(spread.filter((node) => node === "n1")).toHaveLength(3);
    // One more says little where a node is much fuller.
    state.place({
      request: aRequest("vm/9", {}, { demand: { cpu: 7, memory: 14 * GiB } }),
      node: "n2",
      counts: true,
    });
    const { verdicts } = explain(state, aRequest("vc/x", {}, vc), policy);
    expect(verdicts[0]).toMatchObject({ node: "n1", parts: { ClusterSpread: 25 } });
    const one = { ...vc, demand: { cpu: 1, memory: GiB } };
    const packed = placeMany(new ClusterState(nodes), 4, { strategy: "utilization" }, one);
    expect(new Set(packed).size).toBe(1);
    // What its workers may use in all is no single guest's.
    const many = aRequest("vc/y", {}, { ...vc, demand: { cpu: 12, memory: GiB } });
    const large = new ClusterState([aNode("n1", { allocatable: { cpu: 16, memory: 16 * GiB }, cpus: 4 })]);
    expect(decidePlacement(large, many, policy).node).toBe("n1");
    expect(decidePlacement(large, { ...many, kind: "vm" }, policy).refused).toEqual({ EnoughCpus: 1 });
  });

  it("maxSkew holds without a strategy beside it, too", () => {
    const state = new ClusterState([
      aNode("n1", { allocatable: { cpu: 64, memory: 256 * GiB } }),
      aNode("n2"),
    ]);
    const rules = { maxSkew: 1 };
    const places = ["vm/1", "vm/2", "vm/3", "vm/4"].map((id) => {
      const request = aRequest(id, rules);
      const { node = "" } = decidePlacement(state, request, readPolicy());
      state.place({ request, node, counts: true });
      return node;
    });
    expect(places.toSorted()).toEqual(["n1", "n1", "n2", "n2"]);
  });

  it("ha-spread fills zones evenly, and refuses where maxSkew would not hold", () => {
    const labels = guestLabels({ kind: "vm", name: "w", tenant: "blue" });
    const state = new ClusterState(zoned.slice(0, 3));
    const nodes = placeMany(state, 4, { strategy: "ha-spread" }, { labels });
    expect(nodes.filter((node) => node === "n3")).toHaveLength(2);
    const strict = new ClusterState([
      ...zoned.slice(0, 2),
      aNode("n3", { labels: zoned[2]?.labels ?? {}, allocatable: { cpu: 1, memory: GiB } }),
    ]);
    const rules: SchedulingRules = {
      strategy: "ha-spread",
      topologyKey: "topology.gpve.io/zone",
      maxSkew: 1,
    };
    expect(placeMany(strict, 5, rules, { labels }).filter((node) => node === undefined)).toHaveLength(2);
    // Others' guests are none of its business.
    expect(
      decidePlacement(strict, aRequest("vm/9", rules, { labels: { "gpve.io/tenant": "red" } }), policy).node,
    ).toBeDefined();
  });

  it("ha-spread prefers nodes that are in a zone to one that is in none", () => {
    const state = new ClusterState([...zoned.slice(1, 3), aNode("n9")]);
    const labels = guestLabels({ kind: "vm", name: "w", tenant: "blue" });
    const nodes = placeMany(state, 4, { strategy: "ha-spread" }, { labels });
    expect(new Set(nodes)).toEqual(new Set(["n2", "n3"]));
    const soft = [
      { topologyKey: "topology.gpve.io/zone", maxSkew: 1, whenUnsatisfiable: "ScheduleAnyway" as const },
    ];
    const others = placeMany(new ClusterState(state.nodes), 4, { spread: soft }, { labels });
    expect(others.filter((node) => node === "n9")).toEqual([]);
  });

  it("utilization fills one node up to its threshold before the next", () => {
    const state = new ClusterState(zoned);
    placeMany(state, 5, { strategy: "utilization", utilizationThreshold: 50 });
    expect([...state.cpuUsed].toSorted((a, b) => a - b)).toEqual([0, 0, 1, 4]);
  });

  it("gpu-aware takes the node with fewest GPUs to spare, and keeps others off GPUs", () => {
    const gpus = (count: number): string[] => Array.from({ length: count }, () => "NVIDIA A100");
    const state = new ClusterState([
      aNode("n1", { gpus: gpus(4) }),
      aNode("n2", { gpus: gpus(2) }),
      aNode("n3"),
    ]);
    const wants = { strategy: "gpu-aware", gpuType: "A100" } as const;
    const demand = { cpu: 1, memory: GiB, gpus: 2 };
    expect(decidePlacement(state, aRequest("vm/1", wants, { demand }), policy).node).toBe("n2");
    state.place({ request: aRequest("vm/1", wants, { demand }), node: "n2", counts: true });
    expect(decidePlacement(state, aRequest("vm/2", wants, { demand }), policy).node).toBe("n1");
    expect(decidePlacement(state, aRequest("vm/3", { strategy: "gpu-aware" }), policy).node).not.toBe("n1");
  });

  it("latency goes as near as it can: the node, the rack, the zone", () => {
    const db = aRequest("vm/1", {}, { labels: { app: "db" }, demand: { cpu: 8, memory: GiB } });
    const state = new ClusterState(zoned, [{ request: db, node: "n1", counts: true }]);
    expect(
      decidePlacement(state, aRequest("vm/2", { strategy: "latency", near: "app=db" }), policy).node,
    ).toBe("n2");
    const parts = explain(state, aRequest("vm/2", { strategy: "latency", near: "app=db" }), policy).verdicts;
    expect(parts.find(({ node }) => node === "n3")?.parts?.["Latency"]).toBe(0);
  });

  it("preferences of the request outweigh balance; soft taints are avoided", () => {
    const state = new ClusterState([
      aNode("n1", { labels: { disk: "ssd" } }),
      aNode("n2"),
      aNode("n3", { taints: [{ key: "slow", effect: "PreferNoSchedule" }] }),
    ]);
    const ssd = { nodeAffinity: { preferred: [{ nodes: "disk=ssd", weight: 10 }] } };
    expect(placeMany(state, 3, ssd)).toEqual(["n1", "n1", "n1"]);
    expect(decidePlacement(state, aRequest("vm/9"), policy).node).toBe("n2");
    const db = aRequest("vm/50", {}, { labels: { app: "db" } });
    state.place({ request: db, node: "n2", counts: true });
    const near = { affinity: { preferred: [{ guests: "app=db", weight: 50 }] } };
    const far = { antiAffinity: { preferred: [{ guests: "app=db", weight: 50 }] } };
    expect(decidePlacement(state, aRequest("vm/10", near), policy).node).toBe("n2");
    expect(decidePlacement(state, aRequest("vm/11", far), policy).node).not.toBe("n2");
  });

  it("a guest goes where one NUMA cell holds it", () => {
    const numa = (cpus: number) => [0, 1].map(() => ({ cpus, memory: 8 * GiB }));
    const state = new ClusterState([aNode("n1", { numa: numa(2) }), aNode("n2", { numa: numa(4) })]);
    expect(placeMany(state, 1, {}, { demand: { cpu: 4, memory: GiB } })).toEqual(["n2"]);
  });
});

describe("what an operator configures", () => {
  it("names filters and scores, with weights; a wrong name is told with those there are", () => {
    const own = readPolicy({
      defaultStrategy: "utilization",
      filter: ["NodeResourcesFit"],
      score: ["LeastAllocated:7"],
    });
    expect(own.filters.map(({ name }) => name)).toContain("NodeReady");
    expect(own.off.map(({ name }) => name)).toContain("TaintToleration");
    expect(own.scores.balanced.find(({ score }) => score.name === "LeastAllocated")?.weight).toBe(7);
    expect(() => readPolicy({ filter: ["NodeResorcesFit"] })).toThrow(
      /scheduler\.plugins\.filter: 'NodeResorcesFit' is none of NodeReady/,
    );
    expect(() => readPolicy({ score: ["Best"] })).toThrow(/scheduler\.plugins\.score/);
    expect(() => readPolicy({ defaultStrategy: "best" })).toThrow(/balanced, ha-spread/);
  });

  it("a filter that is left out does not act, and a request that needs it is refused rather than misplaced", () => {
    const own = readPolicy({ filter: ["NodeResourcesFit"] });
    const state = new ClusterState([aNode("n1", { taints: [{ key: "x", effect: "NoSchedule" }] })]);
    expect(decidePlacement(state, aRequest("vm/1"), own).node).toBe("n1");
    const picky = aRequest("vm/2", { antiAffinity: { required: [{ guests: "app=a" }] } });
    expect(explain(state, picky, own).verdicts[0]?.refusals).toEqual([
      {
        filter: "GuestAffinity",
        why: "its rules need GuestAffinity, which scheduler.plugins.filter of server.yaml leaves out",
      },
    ]);
  });

  it("an operator's own filter and score take part", () => {
    const own = readPolicy({}, [
      {
        name: "licence",
        weight: 50,
        refuse: (node) => (node.name === "n2" ? "no licence" : undefined),
        score: (node, _request, { guests }) => (node.name === "n3" ? 500 : Number.NaN) - guests,
      },
    ]);
    const state = new ClusterState(zoned);
    const found = explain(state, aRequest("vm/1"), own);
    expect(found.node).toBe("n3");
    expect(found.verdicts[0]?.parts?.["licence"]).toBe(100);
    expect(found.refused).toEqual({ licence: 1 });
  });
});
