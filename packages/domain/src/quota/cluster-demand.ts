// What a virtual cluster takes of its tenant's quota: itself, and what its workers and its persistent volumes may use.
import type { VirtualClusterSpec } from "../vcluster/vcluster-spec.ts";
import { totalSize, totalWorkers } from "../vcluster/vnode/worker-pools.ts";
import { type Amounts, bytesOn } from "./amounts.ts";

export function clusterDemand(
  spec: Pick<VirtualClusterSpec, "workers" | "workerSize" | "pools" | "volumeBytes" | "volumeStorage">,
): Amounts {
  const { volumeBytes = 0, volumeStorage } = spec;
  const volumes =
    volumeStorage === undefined ? { storage: volumeBytes } : bytesOn(volumeStorage, volumeBytes);
  const base = { vcCount: 1, ...(volumeBytes === 0 ? {} : volumes) };
  if (totalWorkers(spec) === 0) return base;
  const { cpus, memoryBytes } = totalSize(spec);
  return { ...base, cpu: cpus, memory: memoryBytes };
}
