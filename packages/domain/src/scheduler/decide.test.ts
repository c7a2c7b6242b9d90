import { parseLabelSelector } from "@gpve/contracts/v1/selector.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ClusterState } from "./cluster-state.ts";
import { selects } from "./label-buckets.ts";
import { decidePlacement } from "./decide.ts";
import { explain, refusalText } from "./explain.ts";
import { HOSTNAME_LABEL, type PlacedGuest, type PlacementRequest, type SchedulerNode } from "./model.ts";
import { readPolicy } from "./policy.ts";
import { aNode, anyNodes, anyRequests, aRequest, GiB } from "./testing/placement-world.ts";
import { labelOf } from "./topology.ts";

const policy = readPolicy();

function fill(nodes: readonly SchedulerNode[], requests: readonly PlacementRequest[]): ClusterState {
  const state = new ClusterState(nodes);
  for (const request of requests) {
    const { node } = decidePlacement(state, request, policy);
    if (node !== undefined) state.place({ request, node, counts: true });
  }
  return state;
}

const placesOf = (state: ClusterState): Record<string, string> =>
  Object.fromEntries([...state.guests()].map(({ request, node }) => [request.id, node]));

it("scores that are switched off by a weight of 0 leave nodes equally good", () => {
  const none = readPolicy({ score: ["LeastAllocated:0", "BalancedAllocation:0"] });
  const state = new ClusterState([aNode("n1"), aNode("n2"), aNode("n3")]);
  const found = ["a", "b", "c", "d", "e", "f", "g", "h"].map((id) =>
    decidePlacement(state, aRequest(id), none),
  );
  expect(new Set(found.map(({ node }) => node))).toEqual(new Set(["n1", "n2", "n3"]));
  expect(new Set(found.map(({ score }) => score))).toEqual(new Set([0]));
  expect(explain(state, aRequest("a"), none).verdicts[0]?.score).toBe(0);
});

describe("room on storages", () => {
  const volume = (id: string, storage: string) =>
    aRequest(id, {}, { needs: { storages: { [storage]: 60 * GiB }, content: "images" } });
  const room = { availBytes: 100 * GiB, content: ["images"] };
  const nodes = (more: object = {}) =>
    ["n1", "n2"].map((name) => aNode(name, { storages: { disks: { ...room, ...more } } }));

  it("is gone as soon as it is promised, and back when nothing comes of it", () => {
    const state = new ClusterState(nodes());
    expect(state.storageRoom("disks")).toEqual(Float64Array.of(100 * GiB, 100 * GiB));
    for (const id of ["vm/1", "vm/2"]) {
      const request = volume(id, "disks");
      state.place({ request, node: decidePlacement(state, request, policy).node ?? "", counts: true });
    }
    expect(new Set(Object.values(placesOf(state)))).toEqual(new Set(["n1", "n2"]));
    expect(decidePlacement(state, volume("vm/3", "disks"), policy).refused).toEqual({ StorageRoom: 2 });
    state.setNodes(nodes());
    expect(decidePlacement(state, volume("vm/3", "disks"), policy).node).toBeUndefined();
    // Its volume is there now, and the storage says what is left.
    state.place({
      request: aRequest("vm/1", {}, { needs: { storages: { disks: 0 } } }),
      node: "n1",
      counts: true,
    });
    expect(decidePlacement(state, volume("vm/3", "disks"), policy).node).toBe("n1");
    state.remove("vm/2");
    expect(state.storageRoom("disks")).toEqual(Float64Array.of(100 * GiB, 100 * GiB));
  });

  it("that nodes share is one room", () => {
    const state = new ClusterState([...nodes({ shared: true }), aNode("n3")]);
    expect(state.storageRoom("disks")).toEqual(Float64Array.of(100 * GiB, 100 * GiB, -1));
    state.place({ request: volume("vm/1", "disks"), node: "n1", counts: true });
    expect(state.storageRoom("disks")).toEqual(Float64Array.of(40 * GiB, 40 * GiB, -1));
    state.place({ request: volume("vm/2", "disks"), node: "n2", counts: true });
    expect(state.storageRoom("disks")).toEqual(Float64Array.of(0, 0, -1));
    expect(decidePlacement(state, volume("vm/3", "disks"), policy).refused).toEqual({
      StorageRoom: 2,
      StorageReachable: 1,
    });
  });
});

describe("whatever is asked of whatever cluster", () => {
  it("no node ever has more than it may give, and no guest is where a required rule forbids it", () => {
    fc.assert(
      fc.property(anyNodes, anyRequests, (nodes, requests) => {
        const state = new ClusterState(nodes);
        const placed: PlacedGuest[] = [];
        for (const request of requests) {
          const { node } = decidePlacement(state, request, policy);
          if (node === undefined) continue;
          const target = nodes.find(({ name }) => name === node);
          expect(target).toBeDefined();
          if (target !== undefined) requireRules(request, target, nodes, placed);
          placed.push({ request, node, counts: true });
          state.place({ request, node, counts: true });
        }
        for (const node of nodes) {
          const there = placed.filter((guest) => guest.node === node.name);
          const sum = (of: (guest: PlacedGuest) => number): number =>
            there.reduce((all, guest) => all + of(guest), 0);
          expect(sum(({ request }) => request.demand.cpu)).toBeLessThanOrEqual(node.allocatable.cpu);
          expect(sum(({ request }) => request.demand.memory)).toBeLessThanOrEqual(node.allocatable.memory);
          expect(sum(({ request }) => request.demand.gpus ?? 0)).toBeLessThanOrEqual(node.gpus.length);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("the same cluster gives the same answer, in whatever order it was told of nodes and guests", () => {
    fc.assert(
      fc.property(anyNodes, anyRequests, fc.integer(), (nodes, requests, seed) => {
        const one = fill(nodes, requests);
        expect(placesOf(fill(nodes.toReversed(), requests))).toEqual(placesOf(one));
        const next = aRequest(`vm/${seed}`, { strategy: "ha-spread" });
        const again = new ClusterState(nodes.toReversed(), [...one.guests()].toReversed());
        expect(decidePlacement(again, next, policy)).toEqual(decidePlacement(one, next, policy));
      }),
    );
  });

  it("the explanation agrees with the decision: every node is refused with a reason or has a score", () => {
    fc.assert(
      fc.property(anyNodes, anyRequests, (nodes, requests) => {
        const state = fill(nodes, requests.slice(1));
        const request = requests[0] ?? aRequest("vm/1");
        const decision = decidePlacement(state, request, policy);
        const { verdicts, ...rest } = explain(state, request, policy);
        expect(rest).toMatchObject(decision);
        expect(verdicts.map(({ node }) => node).toSorted()).toEqual(nodes.map(({ name }) => name).toSorted());
        expect(verdicts.filter(({ refusals }) => refusals.length === 0)).toHaveLength(decision.feasible);
        for (const { refusals, score } of verdicts) {
          expect(refusals.length > 0).toBe(score === undefined);
          for (const { why } of refusals) expect(why.length).toBeGreaterThan(5);
        }
        if (decision.node === undefined) return;
        expect(verdicts[0]?.node).toBe(decision.node);
        expect(verdicts[0]?.score).toBeCloseTo(decision.score, 0);
        expect(Math.max(...verdicts.map(({ score }) => score ?? 0))).toBe(verdicts[0]?.score);
      }),
    );
  });

  it("what is counted by place follows guests that come, go and move", () => {
    fc.assert(
      fc.property(anyNodes, anyRequests, (nodes, requests) => {
        const state = new ClusterState(nodes);
        state.counts("app=a", "topology.gpve.io/zone");
        for (const request of requests) {
          const { node } = decidePlacement(state, request, policy);
          if (node !== undefined) state.place({ request, node, counts: true });
          if (request.demand.cpu === 2) state.remove(request.id);
        }
        const fresh = new ClusterState(nodes, state.guests());
        expect(state.counts("app=a", "topology.gpve.io/zone")).toEqual(
          fresh.counts("app=a", "topology.gpve.io/zone"),
        );
        expect(state.cpuUsed).toEqual(fresh.cpuUsed);
      }),
    );
  });
});

/** The rules read from their words, without the scheduler's own structures. */
function requireRules(
  { rules, labels }: PlacementRequest,
  node: SchedulerNode,
  nodes: readonly SchedulerNode[],
  placed: readonly PlacedGuest[],
): void {
  const nodeOf = (guest: PlacedGuest): SchedulerNode | undefined =>
    nodes.find(({ name }) => name === guest.node);
  const place = (at: SchedulerNode | undefined, key = HOSTNAME_LABEL): string | undefined =>
    at === undefined ? undefined : labelOf(at, key);
  const finds = (selector: string, of: PlacementRequest): boolean =>
    selects(parseLabelSelector(selector), of.labels);
  expect(node.unschedulable).toBe(false);
  if (rules.nodeAffinity?.required !== undefined) expect(node.labels["disk"]).toBe("ssd");
  if (node.taints.some(({ effect }) => effect === "NoSchedule")) expect(rules.tolerations).toBeDefined();
  for (const { guests, topologyKey } of rules.antiAffinity?.required ?? []) {
    const beside = placed.filter(
      (guest) =>
        finds(guests, guest.request) &&
        place(nodeOf(guest), topologyKey) !== undefined &&
        place(nodeOf(guest), topologyKey) === place(node, topologyKey),
    );
    expect(beside).toEqual([]);
  }
  for (const guest of placed) {
    for (const { guests, topologyKey } of guest.request.rules.antiAffinity?.required ?? []) {
      if (!selects(parseLabelSelector(guests), labels)) continue;
      const there = place(nodeOf(guest), topologyKey);
      expect(there !== undefined && there === place(node, topologyKey)).toBe(false);
    }
  }
  for (const { guests = "", topologyKey, maxSkew } of rules.spread ?? []) {
    expect(place(node, topologyKey)).toBeDefined();
    const self = selects(parseLabelSelector(guests), labels) ? 1 : 0;
    const count = (value: string | undefined): number =>
      placed.filter((guest) => finds(guests, guest.request) && place(nodeOf(guest), topologyKey) === value)
        .length;
    const open = nodes.filter(
      (each) =>
        !each.unschedulable &&
        place(each, topologyKey) !== undefined &&
        (rules.nodeAffinity?.required === undefined || each.labels["disk"] === "ssd") &&
        (rules.tolerations !== undefined || each.taints.every(({ effect }) => effect !== "NoSchedule")),
    );
    const least = Math.min(...open.map((each) => count(place(each, topologyKey))));
    expect(count(place(node, topologyKey)) + self - least).toBeLessThanOrEqual(maxSkew);
  }
}

describe("a refusal says why, and what would change it", () => {
  const why = (nodes: readonly SchedulerNode[], request: PlacementRequest): readonly string[] =>
    explain(new ClusterState(nodes), request, policy).verdicts.flatMap(({ refusals }) =>
      refusals.map(({ filter, why: text }) => `${filter}: ${text}`),
    );

  it.each<readonly [string, Partial<SchedulerNode>, PlacementRequest, string]>([
    [
      "silent",
      { away: "its agent does not report" },
      aRequest("vm/1"),
      "NodeReady: its agent does not report",
    ],
    ["cordoned", { unschedulable: true }, aRequest("vm/1"), "NodeUnschedulable: it is cordoned"],
    [
      "full",
      { allocatable: { cpu: 0.5, memory: GiB / 2 } },
      aRequest("vm/1"),
      "NodeResourcesFit: 0.5 of 1 CPUs are free, 512 MiB of 1 GiB memory are free",
    ],
    [
      "small",
      { cpus: 1 },
      aRequest("vm/1", {}, { demand: { cpu: 2, memory: 1 } }),
      "EnoughCpus: it has 1 CPUs",
    ],
    [
      "without the label",
      {},
      aRequest("vm/1", { nodeAffinity: { required: ["disk=ssd", "disk=nvme"] } }),
      "NodeAffinity: its labels do not match 'disk=ssd' or 'disk=nvme'",
    ],
    [
      "tainted",
      { taints: [{ key: "gpu", value: "only", effect: "NoSchedule" }] },
      aRequest("vm/1", { tolerations: [{ key: "gpu", value: "other" }, { key: "x" }] }),
      "TaintToleration: its taint gpu=only:NoSchedule is not tolerated",
    ],
    [
      "without the storage",
      {},
      aRequest("vm/1", {}, { needs: { storages: { ceph: 1 } } }),
      "StorageReachable: storage ceph is not there, or not active",
    ],
    [
      "whose storage takes no such content",
      { storages: { nfs: { availBytes: 9, content: ["iso"] } } },
      aRequest("vm/1", {}, { needs: { storages: { nfs: 1 }, content: "images" } }),
      "StorageReachable: storage nfs takes no images",
    ],
    [
      "whose storage is full",
      {},
      aRequest("vm/1", {}, { needs: { storages: { local: 200 * GiB } } }),
      "StorageRoom: storage local has 100 GiB left, of 200 GiB",
    ],
    [
      "without the bridge",
      {},
      aRequest("vm/1", {}, { needs: { bridges: ["vmbr0", "vmbr7"] } }),
      "BridgeReachable: it has no bridge vmbr7",
    ],
    [
      "with another CPU",
      { cpuFlags: ["sse4_2"] },
      aRequest("vm/1", {}, { needs: { cpuFlags: ["avx2", "sse4_2"], cpuModel: "x86-64-v3" } }),
      "CpuCompatible: its CPU has no avx2, which CPU type x86-64-v3 promises",
    ],
    [
      "of another architecture",
      { architecture: "aarch64" },
      aRequest("ct/1", {}, { needs: { architecture: "x86_64" } }),
      "CpuCompatible: it is aarch64, not x86_64",
    ],
    [
      "with small NUMA cells",
      { numa: [{ cpus: 4, memory: 8 * GiB }] },
      aRequest("vm/1", {}, { needs: { numaCells: 1 }, demand: { cpu: 6, memory: GiB } }),
      "NumaFit: none of its NUMA cells has 6 CPUs and 1 GiB",
    ],
    [
      "without such a GPU",
      { gpus: ["NVIDIA A100", "AMD MI300"] },
      aRequest("vm/1", { gpuType: "a100" }, { demand: { cpu: 1, memory: 1, gpus: 2 } }),
      "GpuFit: 1 of 2 GPUs of type a100 are free",
    ],
    [
      "without the company it needs",
      {},
      aRequest("vm/1", { affinity: { required: [{ guests: "app=db" }] } }),
      "GuestAffinity: no guest is there that 'app=db' selects",
    ],
    [
      "without the place it is spread over",
      {},
      aRequest("vm/1", { spread: [{ maxSkew: 1, topologyKey: "topology.gpve.io/zone" }] }),
      "TopologySpread: it has no label topology.gpve.io/zone",
    ],
  ])("a node %s", (_what, more, request, expected) => {
    expect(why([aNode("n1", more)], request).join("\n")).toContain(expected);
  });

  it("by guests that are there, of either side, and by distance", () => {
    const zone = (name: string, value: string): SchedulerNode =>
      aNode(name, { labels: { "topology.gpve.io/zone": value } });
    const state = new ClusterState(
      [zone("n1", "a"), zone("n2", "a"), zone("n3", "b")],
      [
        {
          request: aRequest(
            "vm/100",
            { antiAffinity: { required: [{ guests: "app=web", topologyKey: "topology.gpve.io/zone" }] } },
            { labels: { app: "web" } },
          ),
          node: "n1",
          counts: true,
        },
      ],
    );
    const texts = (request: PlacementRequest): Record<string, string> =>
      Object.fromEntries(
        explain(state, request, policy).verdicts.map(({ node, refusals }) => [node, refusals[0]?.why ?? ""]),
      );
    const web = texts(aRequest("vm/101", {}, { labels: { app: "web" } }));
    expect(web["n2"]).toContain("vm/100 must be apart from guests that 'app=web' selects");
    expect(web["n3"]).toBe("");
    const apart = texts(aRequest("vm/102", { antiAffinity: { required: [{ guests: "app=web" }] } }));
    expect(apart["n1"]).toBe("vm/100 is on it, from which it must be apart");
    const near = texts(aRequest("vm/103", { maxHops: 1, near: "app=web" }));
    expect(near).toMatchObject({ n1: "", n2: "" });
    expect(near["n3"]).toContain("it is 2 hops from a guest that 'app=web' selects");
    const beside = texts(aRequest("vm/105", { maxHops: 0, near: "app=web" }));
    expect(Object.values(beside).join()).toContain(
      "it is 1 hop from a guest that 'app=web' selects, and at most 0",
    );
    const together = texts(aRequest("vm/104", { affinity: { required: [{ guests: "app=web" }] } }));
    expect(together["n2"]).toContain("no guest that 'app=web' selects is on it");
  });

  it("in one line, for who may not see nodes", () => {
    const state = new ClusterState([aNode("n1", { unschedulable: true }), aNode("n2", { cpus: 0 })]);
    expect(refusalText(decidePlacement(state, aRequest("vm/1"), policy))).toBe(
      "0 of 2 nodes can take it: 1 by EnoughCpus, 1 by NodeUnschedulable",
    );
    expect(refusalText(decidePlacement(new ClusterState(), aRequest("vm/1"), policy))).toBe(
      "the cluster has no nodes",
    );
  });
});
