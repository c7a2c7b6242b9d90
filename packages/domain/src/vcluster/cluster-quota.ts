// What a cluster may have, whoever asks for it: a bound of its own beside those of its tenant.
import { given } from "@gpve/contracts/given.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { formatQuantity } from "../vm/spec/quantity.ts";
import { invalidSpec } from "./invalid-spec.ts";
import { readBytes, readCpus, type VnodeSize } from "./vnode/vnode.ts";
import { type Sized, totalSize } from "./vnode/worker-pools.ts";

export interface ClusterQuota {
  /** What its persistent volumes may have together; absent: no bound. */
  readonly volumeBytes?: number;
  /** What its workers may have together; absent: no bound. */
  readonly workerQuota?: Partial<VnodeSize>;
}

export function readClusterQuota({ cpu, memory, storage }: Fields): ClusterQuota {
  const volumeBytes = bounded("storage", storage, readBytes, "bytes, such as 20Gi");
  const cpus = bounded("cpu", cpu, readCpus, "CPUs, such as 8 or 2500m");
  const memoryBytes = bounded("memory", memory, readBytes, "bytes, such as 16Gi");
  const workerQuota = given({ cpus, memoryBytes });
  return {
    ...given({ volumeBytes }),
    ...(Object.keys(workerQuota).length === 0 ? {} : { workerQuota }),
  };
}

/** With these bounds and no others. */
export function withQuota<Spec extends ClusterQuota>(spec: Spec, quota: ClusterQuota): Spec {
  const { volumeBytes: _volumes, workerQuota: _workers, ...kept } = spec;
  return { ...kept, ...quota } as Spec;
}

/** As /api/v1 shows it; undefined: there is none. */
export function shownClusterQuota({ volumeBytes, workerQuota = {} }: ClusterQuota): Fields | undefined {
  const { cpus, memoryBytes } = workerQuota;
  const shown = {
    ...(cpus === undefined ? {} : { cpu: String(cpus) }),
    ...(memoryBytes === undefined ? {} : { memory: formatQuantity(memoryBytes) }),
    ...(volumeBytes === undefined ? {} : { storage: formatQuantity(volumeBytes) }),
  };
  return Object.keys(shown).length === 0 ? undefined : shown;
}

/** Throws where its workers would have more than it may. */
export function requireWithinQuota(spec: Sized & Pick<ClusterQuota, "workerQuota">): void {
  const { cpus: cpuBound = Infinity, memoryBytes: memoryBound = Infinity } = spec.workerQuota ?? {};
  const { cpus, memoryBytes } = totalSize(spec);
  if (cpus > cpuBound)
    throw invalidSpec("quota.cpu", `its workers would have ${cpus} CPUs, and its quota is ${cpuBound}`);
  if (memoryBytes > memoryBound)
    throw invalidSpec(
      "quota.memory",
      `its workers would have ${formatQuantity(memoryBytes)}, and its quota is ${formatQuantity(memoryBound)}`,
    );
}

function bounded(
  field: string,
  value: unknown,
  read: (value: unknown) => number | undefined,
  what: string,
): number | undefined {
  if (value === undefined) return undefined;
  const bound = read(value);
  if (bound === undefined) throw invalidSpec(`quota.${field}`, `must be ${what}`);
  return bound;
}
