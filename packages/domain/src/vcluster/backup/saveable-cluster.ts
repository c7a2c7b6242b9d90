// Which clusters backup, restore and upgrade can deal with. A backup is read from any store of ours that runs; what writes one,
// and what must be able to put it back, does so with a database of ours, on one node.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Fields } from "@gpve/contracts/v1/object.ts";
import { replicaSlot } from "../overlay.ts";
import type { KeptCluster } from "../ports.ts";
import { hasReplicas } from "../replicas/replica-places.ts";
import type { VirtualClusterRecord } from "../vcluster-record.ts";
import { totalWorkers } from "../vnode/worker-pools.ts";

/** What is asked for, as it is said in the refusal, and what to do instead. */
const WORKS = {
  backup: {
    what: "be backed up",
    etcd: "save that etcd by its own means (etcdctl snapshot save)",
    spread: "save what is in it by Kubernetes' own means (kubectl get -o yaml, copies of its volumes)",
  },
  restore: {
    what: "be what a backup is restored to",
    etcd: "restore the backup under another name, as a cluster with backingStore sqlite",
    spread: "restore the backup under another name",
  },
  upgrade: {
    what: "be upgraded",
    etcd: "make a new one of that version and apply there what this one has",
    spread: "",
  },
} as const;

/** As its record says. */
export function isSaveable({ spec, spread }: Pick<VirtualClusterRecord, "spec" | "spread">): boolean {
  return spec.backingStore !== "external" && (spread === undefined || hasReplicas(spread));
}

/** What a cluster is that is made of a backup: on one node, with a database, whatever the one before was. */
export function restoredSpec(spec: Fields): Fields {
  const { controlPlane = {} } = spec as { readonly controlPlane?: Fields };
  if (controlPlane["backingStore"] !== "etcd") return spec;
  return { ...spec, controlPlane: { ...controlPlane, backingStore: "sqlite", replicas: 1 } };
}

/** Throws with the reason and what to do; before anything is touched. */
export function requireSaveable(
  work: keyof typeof WORKS,
  { name, spec, overlay, phase }: Pick<KeptCluster, "name" | "spec" | "overlay"> & Partial<KeptCluster>,
): void {
  const { what, etcd, spread } = WORKS[work];
  const refused = (why: string, instead: string): AppError =>
    new AppError(
      "feature.unsupported",
      `virtual cluster '${name}' cannot ${what} in this release: ${why}. Instead: ${instead}`,
    );
  // An etcd of its own is read for a backup, and copied whole for an upgrade.
  const isRead = work !== "restore" && spec.backingStore === "etcd";
  if (spec.backingStore !== "sqlite" && !isRead)
    throw refused(
      `its objects are in a store of kind ${spec.backingStore}, and only sqlite can be ${work === "backup" ? "saved" : "put back"}`,
      etcd,
    );
  if (isRead && work === "backup" && phase !== undefined && phase !== "Running")
    throw new AppError(
      "object.conflict",
      `virtual cluster '${name}' is ${phase}: one with an etcd of its own can be backed up while it is Running`,
    );
  // Its machine would be another, and its pods would end with it.
  if (work === "upgrade" && spec.isolationLevel === "L3" && totalWorkers(spec) > 0)
    throw refused(
      "its workers are machines (level L3), which are not exchanged while their pods run",
      `remove its workers (gpvectl vc scale ${name} --workers 0, and its pools), upgrade it, and scale it again`,
    );
  // Servers lead an upgrade of several nodes, and say which part of it is this one's.
  if (work === "upgrade") return;
  if (overlay !== undefined && !(isRead && replicaSlot(overlay) !== undefined))
    throw refused("it has workers on several nodes, and only what is on one node can be dealt with", spread);
}
