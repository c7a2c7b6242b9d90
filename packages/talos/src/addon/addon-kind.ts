// What the catalogue says of an add-on.
import type { Cluster } from "../cluster/cluster.ts";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";

export interface AddonSource {
  /** A manifest is applied as it is, a chart is rendered first. */
  readonly kind: "manifest" | "chart";
  /** `{version}` stands for the version. */
  readonly from: string;
}

/** An account of the platform that an add-on works with; its role holds nothing else. */
export interface AddonAccount {
  readonly privileges: readonly string[];
  /** Where the role is given. */
  readonly paths: (pool: string | null) => readonly string[];
  /** Holds `config.yaml`. */
  readonly secret: { readonly name: string; readonly namespace: string };
}

export interface AddonKind {
  readonly name: string;
  readonly about: string;
  readonly isWanted: (cluster: Cluster) => boolean;
  /** Objects without a namespace go there. */
  readonly namespace: string;
  /** Pods that need more than the cluster lets others do. */
  readonly isPrivileged?: boolean;
  /** Nodes are only ready with it. */
  readonly isNetwork?: boolean;
  readonly version: string;
  /** undefined: it is all ours. */
  readonly source?: AddonSource;
  /** Of a chart, below what the file says. */
  readonly values?: (cluster: Cluster) => Readonly<Record<string, unknown>>;
  /** What must be different on this cluster. */
  readonly adjust?: (object: KubernetesObject, cluster: Cluster) => KubernetesObject;
  /** Ours, applied after the source's. */
  readonly objects?: (cluster: Cluster) => readonly KubernetesObject[];
  readonly account?: AddonAccount;
}
