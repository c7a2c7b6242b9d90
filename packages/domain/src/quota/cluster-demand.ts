// What a virtual cluster takes of its tenant's quota: itself, and what its workers and its persistent volumes may use.
import type { VirtualClusterSpec } from "../vcluster/vcluster-spec.ts";
import { totalSize, totalWorkers } from "../vcluster/vnode/worker-pools.ts";
import type { Amounts } from "./amounts.ts";

export function clusterDemand(
  spec: Pick<VirtualClusterSpec, "workers" | "workerSize" | "pools" | "volumeBytes">,
): Amounts {
  const { volumeBytes = 0 } = spec;
  const base = { vcCount: 1, ...(volumeBytes === 0 ? {} : { storage: volumeBytes }) };
  if (totalWorkers(spec) === 0) return base;
  const { cpus, memoryBytes } = totalSize(spec);
  return { ...base, cpu: cpus, memory: memoryBytes };
}
