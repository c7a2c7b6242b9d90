// Which clusters backup, restore and upgrade can deal with. All of them read and write a store of ours, on one node.
import { AppError } from "@gpve/contracts/errors.ts";
import type { KeptCluster } from "../ports.ts";
import type { VirtualClusterRecord } from "../vcluster-record.ts";

/** What is asked for, as it is said in the refusal, and what to do instead. */
const WORKS = {
  backup: {
    what: "be backed up",
    etcd: "save its etcd by etcd's own means (etcdctl snapshot save)",
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
    spread: "make a new one of that version and apply there what this one has",
  },
} as const;

/** As its record says. */
export function isSaveable({ spec, spread }: Pick<VirtualClusterRecord, "spec" | "spread">): boolean {
  return spec.backingStore === "sqlite" && spread === undefined;
}

/** Throws with the reason and what to do; before anything is touched. */
export function requireSaveable(
  work: keyof typeof WORKS,
  { name, spec, overlay }: Pick<KeptCluster, "name" | "spec" | "overlay">,
): void {
  const { what, etcd, spread } = WORKS[work];
  const refused = (why: string, instead: string): AppError =>
    new AppError(
      "feature.unsupported",
      `virtual cluster '${name}' cannot ${what} in this release: ${why}. Instead: ${instead}`,
    );
  if (spec.backingStore !== "sqlite")
    throw refused(
      `its objects are in a store of kind ${spec.backingStore}, and only sqlite can be saved and put back`,
      etcd,
    );
  if (overlay !== undefined)
    throw refused("it has workers on several nodes, and only what is on one node can be dealt with", spread);
}
