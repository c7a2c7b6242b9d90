// What the work on virtual clusters needs of a node.
import type { VcPhase } from "@gpve/contracts/v1/vc-phase.ts";
import type { Identity } from "./backup/identity.ts";
import type { FrontRoute } from "./cluster-front.ts";
import type { ExternalEtcdKeys } from "./backing-store.ts";
import type { ClusterPart } from "./cluster-part.ts";
import type { ClusterOverlay } from "./overlay.ts";
import type { SleepMode } from "./power/sleep-policy.ts";
import type { VirtualClusterSpec } from "./vcluster-spec.ts";

/** What every node knows of a cluster that has a part of it. */
export interface ClusterCore {
  /** By which all of it is found here: the key that servers gave it (cluster-key.ts). */
  readonly name: string;
  /** By which its tenant knows it; absent: the same. */
  readonly called?: string;
  readonly tenant: string;
  readonly spec: VirtualClusterSpec;
  /** Of Kubernetes, in full. */
  readonly version: string;
  /** Of its etcd, where it has one: data of a newer one is nothing to an older one. */
  readonly etcdVersion?: string;
}

/** A cluster as its node keeps it. */
export interface KeptCluster extends ClusterCore {
  /** Of its network on this host; undefined = it has none yet. */
  readonly network?: number;
  /** Its workers, or replicas of its control plane, are on several nodes; undefined = all of it is here. */
  readonly overlay?: ClusterOverlay;
  readonly phase: VcPhase;
  /** When it came into this phase; milliseconds since the epoch. */
  readonly phaseAt?: number;
  /** Why it has failed. */
  readonly message?: string;
  /** When what signs for it changed last; milliseconds since the epoch. */
  readonly keysAt?: number;
  /** Whether it shall run: what ends by itself is started again. */
  readonly isWanted: boolean;
  /** It sleeps, and wakes when somebody connects. */
  readonly asleep?: SleepMode;
  /** And it wakes by itself then, in milliseconds since the epoch: a job of it is due. */
  readonly wakeAt?: number;
  /** Until then it does not sleep by itself, in milliseconds since the epoch: somebody said so. */
  readonly heldUntil?: number;
  /** It was made asleep and has never been started. */
  readonly isNew?: true;
  /** Its parts are being exchanged: nobody else starts what ends. */
  readonly isSwitching?: true;
  /** Its store is to begin here: the other replicas join this one. */
  readonly isFirst?: true;
  /** A backup that it is to be filled with before it is started for the first time. */
  readonly fill?: { readonly archive: string; readonly identity: Identity };
}

/** What its tenant calls it: in names that he reads, never in those of folders and processes. */
export function calledOf({ name, called }: Pick<KeptCluster, "name" | "called">): string {
  return called ?? name;
}

export interface KubeconfigAsk {
  /** Whom the certificate names. */
  readonly user: string;
  readonly lifetimeMs: number;
  /** Where it is to be asked, by its name; absent: at this node. */
  readonly server?: string;
}

export interface IssuedKubeconfig {
  /** By which it is revoked. */
  readonly id: string;
  readonly kubeconfig: string;
  readonly expiresAt: number;
}

/** The clusters that a node has. */
export interface KeptClusters {
  list(): readonly KeptCluster[];
  get(name: string): KeptCluster | undefined;
  save(cluster: KeptCluster): void;
}

/** And which of them run. */
export interface RunningClusters extends Pick<KeptClusters, "list"> {
  /** Whether all of its parts run. */
  isUp(cluster: KeptCluster): boolean;
}

/** What each takes. */
export interface ClusterUsage {
  usage(cluster: KeptCluster): {
    readonly memoryBytes: number;
    readonly cpuSeconds: number;
    /** The part that has run longest; milliseconds since the epoch. */
    readonly startedAt: number;
  };
}

/** What signs for a cluster, and what it shows to the store of somebody else. */
export interface ClusterAuthority {
  /** What its API server shows to an etcd that somebody else runs; before it is provisioned. */
  keepStoreKeys(name: string, keys: ExternalEtcdKeys): void;
  /** Makes what signs for it, where it is not there; answers with what another node needs to have workers of it, or a replica
   * of its control plane. */
  authority(name: string, who: "workers" | "replica"): Promise<Readonly<Record<string, string>>>;
  /** Takes what another node signs with. */
  takeAuthority(name: string, files: Readonly<Record<string, string>>): void;
}

/** Ways in for users. */
export interface ClusterKubeconfigs {
  kubeconfig(cluster: KeptCluster, ask: KubeconfigAsk, signal: AbortSignal): Promise<IssuedKubeconfig>;
  revokeKubeconfig(cluster: KeptCluster, id: string, signal: AbortSignal): Promise<void>;
}

/** Where a cluster stands: its folders and its network. */
export interface ClusterGround {
  /** Why workers of a cluster here cannot be one network with those on other nodes; undefined = they can. */
  overlayRefusal(): Promise<string | undefined>;
  /** Folders, keys and network, of one that begins asleep its number alone; what is there stays. Answers with what it took. */
  provision(cluster: KeptCluster): Promise<{ readonly network: number }>;
  /** Of one that is stopped: its control plane's address can be another node's. */
  unplug(cluster: KeptCluster): Promise<void>;
  /** Of one that is stopped and is another node's: its control plane with store and keys, or all that is here of it. */
  letGo(cluster: KeptCluster, what: "control plane" | "all"): Promise<void>;
  /** Its control plane is elsewhere than it was: these workers ask who has its address. */
  lookAgain(cluster: KeptCluster, slots: readonly number[]): Promise<void>;
  /** All that is left of one that is stopped, wherever it is; says what it could not remove. */
  remove(name: string, say: (line: string) => void): Promise<void>;
}

/** From a cluster that is provisioned to one that serves, and back. */
export interface ClusterRuns {
  /** Starts what does not run of store and control plane, and waits until the API is ready and all of it runs. `opened`: for
   * whom the API counts and nothing else; called when that is ready, before controllers and scheduler take their share. */
  start(
    cluster: KeptCluster,
    signal: AbortSignal,
    say: (line: string) => void,
    opened?: () => Promise<void>,
  ): Promise<void>;
  /** The first objects of a new cluster; those that are there stay. */
  furnish(cluster: KeptCluster, signal: AbortSignal): Promise<void>;
  /** In the opposite order; the store last. */
  stop(cluster: KeptCluster): Promise<void>;
  /** One that is stopped stays so for now: what it takes of this machine while nothing runs goes, until it is started. */
  rest(cluster: KeptCluster): Promise<void>;
}

/** And as one that sleeps. */
export interface ClusterSleep {
  /** Its processes stand still, and what the kernel can page out goes; says how. Its store stays open. */
  freeze(cluster: KeptCluster): Promise<string>;
  /** They go on; resolves when the API answers. */
  thaw(cluster: KeptCluster, signal: AbortSignal): Promise<void>;
}

/** Its processes, one by one. */
export interface ClusterParts {
  /** Starts one part that has ended. */
  startPart(cluster: KeptCluster, part: ClusterPart): Promise<void>;
  /** What its parts printed last. */
  lastWords(cluster: KeptCluster): readonly string[];
  /** Called when a part has ended that nobody told to. */
  onEnd(listener: (name: string, part: ClusterPart, why: string) => void): void;
}

/** Where its API is asked. */
export interface ClusterDoors {
  /** Where its API is, for tenants: it wakes it. */
  endpoint(cluster: KeptCluster): string;
  /** How tenants get in; undefined = it has no network yet. */
  way(cluster: KeptCluster): Omit<FrontRoute, "mode"> | undefined;
}

/** All of it, for whoever provides it; a use case names those it needs. */
export interface ClusterHost
  extends
    KeptClusters,
    RunningClusters,
    ClusterUsage,
    ClusterAuthority,
    ClusterKubeconfigs,
    ClusterGround,
    ClusterRuns,
    ClusterSleep,
    ClusterParts,
    ClusterDoors {}
