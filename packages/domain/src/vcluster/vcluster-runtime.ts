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
  /** When its health was looked at last; milliseconds since the epoch. */
  readonly probedAt?: number;
  readonly memoryBytes?: number;
  /** Since its processes were started. */
  readonly cpuSeconds?: number;
  /** Since the agent was started. */
  readonly wakes?: number;
  readonly lastWakeMs?: number;
  /** Its workers on this node. */
  readonly vnodes?: readonly VnodeRuntime[];
  /** By namespace. */
  readonly pods?: Readonly<Record<string, number>>;
  /** By verb. */
  readonly requests?: Readonly<Record<string, { readonly count: number; readonly seconds: number }>>;
}

/** Who connects to one that sleeps is answered too. */
export function isReady({
  phase,
  power,
  asleep,
}: Pick<VirtualClusterRuntime, "phase" | "power" | "asleep">): boolean {
  return phase === "Running" && (power === "hot" || asleep === true);
}
