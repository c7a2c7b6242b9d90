// A VIP that goes from one cluster to another: which one has it is written down before its machines get it, and taken back
// only once none of them has it.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { ClusterLock } from "../folder/lock-file.ts";

/** Refuses (object.conflict) while another cluster of this folder has the VIP. */
export function refuseHeldFront({ endpoint, metadata }: Cluster, beside: readonly ClusterLock[]): void {
  const { front } = endpoint;
  const holder = front?.holds === true ? beside.find((lock) => lock.front === front.vip) : undefined;
  if (holder === undefined || front === undefined) return;
  throw new AppError(
    "object.conflict",
    `${holder.cluster} has the VIP ${front.vip} that ${metadata.name} is to get`,
    {
      data: { finding: "front-held", next: "Nothing was changed." },
    },
  );
}

export function withFront(lock: ClusterLock, { endpoint: { front } }: Cluster): ClusterLock {
  return front?.holds === true ? { ...lock, front: front.vip } : lock;
}

/** Everything is as the file says. */
export function afterFront(lock: ClusterLock, { endpoint: { front } }: Cluster): ClusterLock {
  if (front?.holds === true) return lock;
  const { front: _gone, ...rest } = lock;
  return rest;
}
