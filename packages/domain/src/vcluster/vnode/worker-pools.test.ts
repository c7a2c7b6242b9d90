import { describe, expect, test } from "vitest";
import { clusterDemand } from "../../quota/cluster-demand.ts";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "../vcluster-spec.ts";
import { extraVnodes, totalWorkers, wantedVnodes, withWorkers, workersIn } from "./worker-pools.ts";

const build = {
  name: "build",
  count: 2,
  resources: { cpu: "500m", memory: "512Mi" },
  labels: { disk: "fast", "node-role.kubernetes.io/build": "" },
  taints: [{ key: "dedicated", value: "build", effect: "NoExecute" }, { key: "slow" }],
};
const read = (pools: readonly object[], count = 1) =>
  readVirtualClusterSpec({ workerNodes: { count, pools } });

describe("pools of workers", () => {
  test("are read with their sizes, labels and taints, and shown as they were said", () => {
    const spec = read([build]);
    expect(spec.pools).toEqual([
      {
        name: "build",
        count: 2,
        size: { cpus: 0.5, memoryBytes: 512 * 2 ** 20 },
        labels: build.labels,
        taints: [
          { key: "dedicated", value: "build", effect: "NoExecute" },
          { key: "slow", effect: "NoSchedule" },
        ],
      },
    ]);
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
    expect(read([]).pools).toBeUndefined();
    expect([totalWorkers(spec), clusterDemand(spec)]).toEqual([
      3,
      { vcCount: 1, cpu: 3, memory: 3 * 2 ** 30 },
    ]);
    expect(clusterDemand(read([{ ...build, count: 0 }], 0))).toEqual({ vcCount: 1 });
  });

  test.each([
    ["no list", { name: "x" } as unknown as object[], "must be a list"],
    ["no name", [{ count: 1 }], "is no name of a pool"],
    ["the name of the cluster's own", [{ name: "worker" }], "not 'worker'"],
    ["a name twice", [{ name: "a" }, { name: "a" }], "has 'a' twice"],
    ["names that run into each other", [{ name: "a" }, { name: "a-1" }], "begins as that of another pool"],
    ["a size that is none", [{ name: "a", resources: { cpu: "0" } }], "workerNodes.pools[0].resources.cpu"],
    ["a label that is none", [{ name: "a", labels: { "x y": "1" } }], "is no label"],
    ["a label of the worker's own", [{ name: "a", labels: { "kubernetes.io/hostname": "b" } }], "itself"],
    ["a taint without a key", [{ name: "a", taints: [{ effect: "NoSchedule" }] }], "is no key of a taint"],
    ["another effect", [{ name: "a", taints: [{ key: "k", effect: "Never" }] }], "must be one of NoSchedule"],
    ["more than fit", [{ name: "a", count: 200 }], "room for 200 workers"],
  ])("with %s are refused", (_what, pools, why) => {
    expect(() => read(pools)).toThrow(why);
  });

  test("keep the places of those that are there, and know who has to go", () => {
    const first = wantedVnodes(read([build]), []);
    expect(first.map(({ name, slot }) => [name, slot])).toEqual([
      ["worker-1", 0],
      ["build-1", 1],
      ["build-2", 2],
    ]);
    const more = wantedVnodes(read([{ ...build, count: 1 }], 2), first);
    expect(more.map(({ name, slot }) => [name, slot])).toEqual([
      ["worker-1", 0],
      ["build-1", 1],
      ["worker-2", 3],
    ]);
    expect(extraVnodes(read([{ ...build, count: 1 }], 2), first).map(({ name }) => name)).toEqual([
      "build-2",
    ]);
    // One from before there were pools.
    const old = { slot: 0, name: "worker-1", size: { cpus: 1, memoryBytes: 1 }, isWanted: true };
    expect(wantedVnodes(read([], 1), [old])).toMatchObject([{ name: "worker-1", slot: 0 }]);
  });

  test("are scaled one by one", () => {
    const spec = read([build]);
    expect(workersIn(withWorkers(spec, "build", 5), "build")).toBe(5);
    expect(workersIn(withWorkers(spec, undefined, 7), undefined)).toBe(7);
    expect(() => withWorkers(spec, "other", 1)).toThrow("there is no pool 'other'; there is: build");
    expect(() => workersIn(read([]), "other")).toThrow("there is: none");
  });

  test("are on a node with the labels that are asked for", () => {
    const spec = readVirtualClusterSpec({ workerNodes: { nodeSelector: { site: "a" } } });
    expect(spec.nodeSelector).toEqual({ site: "a" });
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
    expect(() => readVirtualClusterSpec({ workerNodes: { nodeSelector: { site: 1 } } })).toThrow(
      "must be labels",
    );
  });
});
