// Which clusters backup, restore and upgrade can deal with. A backup is read from any store of ours; what is made of one is on one
// node, with a database of ours or an etcd of its own.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { KeptCluster } from "../ports.ts";
import type { VirtualClusterRecord } from "../vcluster-record.ts";
import type { VirtualClusterSpec } from "../vcluster-spec.ts";

/** What is asked for, as it is said in the refusal, and what to do instead. */
const WORKS = {
  backup: {
    what: "be backed up",
    etcd: "save that etcd by its own means (etcdctl snapshot save)",
    spread: "",
  },
  restore: {
    what: "be what a backup is restored to",
    etcd: "restore the backup under another name",
    spread: "restore the backup under another name",
  },
  upgrade: {
    what: "be upgraded",
    etcd: "make a new one of that version and apply there what this one has",
    spread: "",
  },
} as const;

/** As its record says. */
export function isSaveable({ spec }: Pick<VirtualClusterRecord, "spec">): boolean {
  return spec.backingStore !== "external";
}

/** What a cluster is that is made of a backup: on one node, whatever the one before was. One of several replicas has a database
 * then, which a second node can follow; one that takes another's place keeps that one's store. */
export function restoredSpec(spec: Fields, over?: Pick<VirtualClusterSpec, "backingStore">): Fields {
  const { controlPlane = {}, sleep } = spec as { readonly controlPlane?: Fields; readonly sleep?: Fields };
  // It was made once, and may have workers since.
  const { fromStart: _made, ...policy } = sleep ?? {};
  const awake = sleep === undefined ? spec : { ...spec, sleep: policy };
  const isOne = controlPlane["backingStore"] !== "etcd" || controlPlane["replicas"] === 1;
  const backingStore = over?.backingStore ?? (isOne ? controlPlane["backingStore"] : "sqlite");
  if (isOne && backingStore === controlPlane["backingStore"]) return awake;
  return { ...awake, controlPlane: { ...controlPlane, backingStore, replicas: 1 } };
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
  if (spec.backingStore === "external")
    throw refused(
      `its objects are in a store of kind ${spec.backingStore}, which somebody else runs, and only those of ours can be ${work === "backup" ? "saved" : "put back"}`,
      etcd,
    );
  if (spec.backingStore === "etcd" && work === "backup" && phase !== undefined && phase !== "Running")
    throw new AppError(
      "object.conflict",
      `virtual cluster '${name}' is ${phase}: one with an etcd of its own can be backed up while it is Running`,
    );
  // Servers lead an upgrade of several nodes, and say which part of it is this one's.
  if (work === "upgrade") return;
  // What is in its store is read by the node that is asked; volumes that others have are looked for then.
  if (overlay !== undefined && work === "restore")
    throw refused("it has workers on several nodes, and only what is on one node can be dealt with", spread);
}
