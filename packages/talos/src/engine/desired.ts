// What is wanted, beside what the file says of machines: what an operation asked for, and what was recorded before.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import type { RotationPhase } from "../secrets/bundle.ts";
import type { SeenConfig } from "./world.ts";

export const applyParts = ["infrastructure", "bootstrap", "addons", "ccm"] as const;
export type ApplyPart = (typeof applyParts)[number];

export interface WantedAddon {
  readonly name: string;
  readonly digest: string;
  /** Nodes are only ready with it. */
  readonly isNetwork: boolean;
  readonly version?: string;
  readonly source?: string;
  /** What is applied, as plans show it: never with secrets. */
  readonly objects?: readonly string[];
}

/** What an earlier run wrote down about the beginning of etcd. */
export interface Beginning {
  readonly machine: string;
  /** null: it was about to be asked for; whether it was is to be seen. */
  readonly doneAt: string | null;
}

/** Authorities are being replaced: what is wanted now, and once every machine has it. */
export interface WantedRotation {
  readonly phase: RotationPhase;
  readonly next: () => Pick<Desired, "config" | "rotation">;
}

export interface Desired {
  readonly cluster: Cluster;
  readonly machines: readonly Machine[];
  readonly config: (machine: Machine) => SeenConfig;
  readonly beginning: Beginning | undefined;
  /** Machines to be made anew, in this order. */
  readonly replacing: readonly string[];
  /** Machines to be wiped and configured anew, in this order. */
  readonly resetting: readonly string[];
  readonly addons: readonly WantedAddon[];
  /** SHA-256 that images are held to, by name. */
  readonly pinned?: Readonly<Record<string, string>>;
  readonly rotation?: WantedRotation | undefined;
  /** A single control plane may be away for a while. */
  readonly acceptsDowntime: boolean;
  readonly only: ApplyPart | undefined;
  readonly snapshotMaxAgeMs: number;
}

export const wantedTalos = ({ cluster }: Desired): string => cluster.versions.talos.replace(/^v?/, "v");
export const wantedKubernetes = ({ cluster }: Desired): string =>
  cluster.versions.kubernetes.replace(/^v/, "");

/** Before there are secrets: configurations are not known, and nothing has one yet. */
export function unknownDesired({ cluster, machines }: Pick<Desired, "cluster" | "machines">): Desired {
  const version = cluster.versions.kubernetes.replace(/^v/, "");
  return {
    cluster,
    machines,
    config: ({ role }) => ({
      rest: "",
      kubelet: version,
      components: role === "controlplane" ? version : undefined,
    }),
    beginning: undefined,
    replacing: [],
    resetting: [],
    addons: [],
    acceptsDowntime: false,
    only: undefined,
    snapshotMaxAgeMs: 0,
  };
}
