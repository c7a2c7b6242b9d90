// What a virtual cluster takes of its tenant's quota: itself, and what its workers and its persistent volumes may use.
import { heldSpec, type VirtualClusterRecord } from "../vcluster/vcluster-record.ts";
import type { VirtualClusterSpec } from "../vcluster/vcluster-spec.ts";
import { totalSize, totalWorkers } from "../vcluster/vnode/worker-pools.ts";
import { type Amounts, bytesOn, most } from "./amounts.ts";

/** `hasBytes`: what its volumes were asked for already. Without a bound, or with a lower one, they count all the same. */
export function clusterDemand(
  spec: Pick<VirtualClusterSpec, "workers" | "workerSize" | "pools" | "volumeBytes" | "volumeStorage">,
  hasBytes = 0,
): Amounts {
  const { volumeStorage } = spec;
  const volumeBytes = Math.max(spec.volumeBytes ?? 0, hasBytes);
  const volumes =
    volumeStorage === undefined ? { storage: volumeBytes } : bytesOn(volumeStorage, volumeBytes);
  const base = { vcCount: 1, ...(volumeBytes === 0 ? {} : volumes) };
  if (totalWorkers(spec) === 0) return base;
  const { cpus, memoryBytes } = totalSize(spec);
  return { ...base, cpu: cpus, memory: memoryBytes };
}

/** What it is written down with, and what it may be again. */
export function heldDemand(
  record: Pick<VirtualClusterRecord, "spec" | "volumeRoom" | "follows">,
  hasBytes = 0,
): Amounts {
  const specs = [record.spec, record.follows?.replaced ?? []].flat();
  return most(...specs.map((spec) => clusterDemand(heldSpec({ ...record, spec }), hasBytes)));
}
