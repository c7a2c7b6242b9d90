// What a node tells of the virtual clusters that it has.
import type { VcPhase } from "@gpve/contracts/v1/vc-phase.ts";

export interface VnodeRuntime {
  readonly name: string;
  /** Its programs, network and view are whole. */
  readonly running: boolean;
  readonly cpus: number;
  readonly memoryBytes: number;
  /** Pods that run on it. */
  readonly pods: number;
  /** Persistent volumes that it has; absent: none. */
  readonly volumes?: number;
  /** What these were asked for, together. */
  readonly volumeBytes?: number;
  /** What it takes, with its pods; absent: it does not run. */
  readonly usedBytes?: number;
  readonly cpuSeconds?: number;
  /** What runs its machine, where it is one. */
  readonly accelerator?: "kvm" | "tcg";
}

/** How the persistent volumes of a cluster are held on a node. */
export interface VolumesRuntime {
  /** What all of the cluster's may have together; absent: no bound. */
  readonly bound?: number;
  /** The smallest claim that waits for more. */
  readonly waiting?: number;
}

/** How the store of a cluster goes with its standby, as the node tells that has the cluster. */
export interface StandbyRuntime {
  readonly generation: number;
  /** Writes are answered when the standby has them, or almost. */
  readonly isJoined: boolean;
  readonly isConnected: boolean;
  /** The newest revision here, and the newest that is there too. */
  readonly revision: number;
  readonly confirmed: number;
}

/** A standby of another node's cluster, as its node tells. */
export interface StandbyRow {
  readonly name: string;
  readonly tenant: string;
  /** The store that it follows has been heard of in the last seconds. */
  readonly isFed?: boolean;
}

export interface RequestFigures {
  readonly count: number;
  readonly seconds: number;
  /** How many took at most so many seconds. */
  readonly buckets?: Readonly<Record<string, number>>;
}

/** Why one that sleeps by itself does not sleep now. */
export interface AwakeReason {
  /** One word, of the weightiest. */
  readonly reason: string;
  readonly message: string;
}

export interface VirtualClusterRuntime {
  readonly name: string;
  readonly phase: VcPhase;
  /** Only workers of it are on this node. */
  readonly isBranch?: boolean;
  /** Why it has failed, or what is being done. */
  readonly message?: string;
  /** Where its API is. */
  readonly endpoint?: string;
  /** The version that runs. */
  readonly version?: string;
  readonly power: "hot" | "warm" | "cold";
  /** It sleeps, and wakes when somebody connects. */
  readonly asleep?: boolean;
  /** Since when it answers, or does not; milliseconds since the epoch. */
  readonly readySince?: number;
  /** Absent: it sleeps, or never does by itself. */
  readonly keptAwake?: AwakeReason;
  /** When its health was looked at last; milliseconds since the epoch. */
  readonly probedAt?: number;
  readonly memoryBytes?: number;
  /** Since its processes were started. */
  readonly cpuSeconds?: number;
  /** CPUs that it and its workers here kept busy in the last seconds. */
  readonly cores?: number;
  /** Since its processes were started, or the first of them. */
  readonly uptimeSeconds?: number;
  /** Since the agent was started. */
  readonly wakes?: number;
  readonly lastWakeMs?: number;
  /** When what signs for it changed last; milliseconds since the epoch. */
  readonly keysAt?: number;
  /** Of one on several nodes that has a new authority: when the one before is to be dropped. */
  readonly formerTrustedUntil?: number;
  /** Where its store is followed by another node. */
  readonly standby?: StandbyRuntime;
  /** Absent: its agent is too old to say. */
  readonly volumes?: VolumesRuntime;
  /** Its workers on this node. */
  readonly vnodes?: readonly VnodeRuntime[];
  /** By namespace. */
  readonly pods?: Readonly<Record<string, number>>;
  /** By verb. */
  readonly requests?: Readonly<Record<string, RequestFigures>>;
}

const byKey = new WeakMap<readonly VirtualClusterRuntime[], ReadonlyMap<string, VirtualClusterRuntime>>();

/** What a report tells of the cluster with that key. Reports do not change: each is put in order once, for all that ask. */
export function runtimeIn(
  rows: readonly VirtualClusterRuntime[] | undefined,
  key: string,
): VirtualClusterRuntime | undefined {
  if (rows === undefined) return undefined;
  const known = byKey.get(rows) ?? new Map(rows.map((row) => [row.name, row]));
  byKey.set(rows, known);
  return known.get(key);
}

/** Who connects to one that sleeps is answered too. */
export function isReady({
  phase,
  power,
  asleep,
}: Pick<VirtualClusterRuntime, "phase" | "power" | "asleep">): boolean {
  return phase === "Running" && (power === "hot" || asleep === true);
}
