// What is kept of a virtual cluster beside itself: copies of its store with its keys, and archives of all of it.
import type { KeptCluster } from "../ports.ts";
import type { VolumeParcel } from "./cluster-volumes.ts";
import type { Identity } from "./identity.ts";

/** What an archive says of itself; its first member. */
export interface ClusterManifest {
  readonly name: string;
  readonly tenant: string;
  /** As /api/v1 shows it. */
  readonly spec: Readonly<Record<string, unknown>>;
  /** Of Kubernetes, in full. */
  readonly kubernetesVersion: string;
  readonly createdAt: string;
  /** The moment of its store that it shows. */
  readonly revision: number;
  readonly objects: number;
  /** "worker-1/pvc-…" */
  readonly volumes: readonly string[];
}

export interface SaveWork {
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

/** Other nodes that have workers of it. */
export interface OtherVolumes {
  readonly node: string;
  readonly open: (signal: AbortSignal) => Promise<VolumeParcel>;
}

export interface ClusterSaves {
  /** Store as of one revision, and keys, in the cluster's own folder; one of that label is replaced. An etcd that is alone must
   * not run, one of several members has to. */
  keep(
    cluster: KeptCluster,
    label: string,
    work: SaveWork,
  ): Promise<{ readonly revision: number; readonly objects: number }>;
  /** Store and keys are as they were kept. Nothing may use the store meanwhile. */
  bringBack(cluster: KeptCluster, label: string, work: SaveWork): Promise<void>;
  isKept(name: string, label: string): boolean;
  drop(name: string, label: string): void;
  /** The disks of its workers, which are stopped, are put away; and back. Both can be done again. */
  putWorkersAway(name: string, label: string): void;
  bringWorkersBack(name: string, label: string): void;

  /** All of it into one file, whole or not at all, with the volumes that these other nodes have. */
  pack(
    cluster: KeptCluster,
    path: string,
    work: SaveWork & { readonly others?: readonly OtherVolumes[] },
  ): Promise<ClusterManifest>;
  /** What is there of that file, whole or half. */
  discard(path: string): Promise<void>;
  /** Throws where the file is no archive of a virtual cluster. */
  manifest(path: string): Promise<ClusterManifest>;
  /** Store, keys and volumes of an archive become the cluster's own; it does not run. The archive is checked first. */
  unpack(cluster: KeptCluster, path: string, identity: Identity, work: SaveWork): Promise<void>;
}
