import { expect, test } from "vitest";
import { readVirtualClusterSpec } from "../vcluster/vcluster-spec.ts";
import { clusterDemand, heldDemand } from "./cluster-demand.ts";

test("a cluster counts as one, with the processors and the memory of its workers", () => {
  const workerSize = { cpus: 0.7, memoryBytes: 2 ** 30 };
  expect(clusterDemand({ workers: 0, workerSize })).toEqual({ vcCount: 1 });
  expect(clusterDemand({ workers: 3, workerSize })).toEqual({ vcCount: 1, cpu: 2.1, memory: 3 * 2 ** 30 });
});

test("what its volumes were asked for counts, where it has no bound or a lower one", () => {
  const spec = { workers: 0, workerSize: { cpus: 1, memoryBytes: 1 } };
  expect(clusterDemand(spec, 5)).toEqual({ vcCount: 1, storage: 5 });
  expect(clusterDemand({ ...spec, volumeBytes: 4 }, 5)).toMatchObject({ storage: 5 });
  expect(clusterDemand({ ...spec, volumeBytes: 7 }, 5)).toMatchObject({ storage: 7 });
});

test("what its volumes may ask for counts, also on the storage that they are on", () => {
  const spec = { workers: 0, workerSize: { cpus: 1, memoryBytes: 1 }, volumeBytes: 7 };
  expect(clusterDemand(spec)).toEqual({ vcCount: 1, storage: 7 });
  expect(clusterDemand({ ...spec, volumeStorage: "fast" })).toEqual({
    vcCount: 1,
    storage: 7,
    "storage/fast": 7,
  });
});

test("what a backup is put in place of counts as long as it may come back", () => {
  const spec = readVirtualClusterSpec({ workerNodes: { count: 1, resources: { cpu: "2", memory: "1Gi" } } });
  const replaced = { ...spec, workers: 4, workerSize: { cpus: 1, memoryBytes: 2 ** 28 }, volumeBytes: 7 };
  expect(heldDemand({ spec })).toEqual({ vcCount: 1, cpu: 2, memory: 2 ** 30 });
  const both = { vcCount: 1, cpu: 4, memory: 2 ** 30, storage: 7 };
  expect(heldDemand({ spec, follows: { at: 0, replaced } })).toEqual(both);
});
