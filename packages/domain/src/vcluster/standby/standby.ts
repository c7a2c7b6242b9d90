// The standby of a cluster's store: another node follows it, revision for revision, and the cluster goes on from there when
// its own is lost (docs/adr/0014-standby-of-small-stores.md).
import type { VirtualClusterSpec } from "../vcluster-spec.ts";

/** As the cluster's record has it: what holds, whatever nodes say. */
export interface ClusterStandby {
  readonly node: string;
  /** Whose store it follows. */
  readonly of: string;
  /** Another one with everything that is said about it: what was said before holds no longer. */
  readonly generation: number;
  /** solo: the store goes on without it. */
  readonly mode: "stream" | "solo";
  /** Of Kubernetes: what the cluster goes on with there. */
  readonly version: string;
  /** Of the keys that it would go on with: when these changed last; absent: never. */
  readonly keysAt?: number;
  /** It has everything that was answered, but for `lossMs`: the cluster can go on from it. */
  readonly inSync: boolean;
  /** Since when it is, or is not; milliseconds since the epoch. */
  readonly since: number;
}

export interface ClusterRecovery {
  readonly from: string;
  readonly at: number;
  /** How much of what was answered last may be lost, in time; 0 = nothing. */
  readonly lossMs: number;
  /** Nodes with workers of it that have not heard yet where it is. */
  readonly untold?: readonly string[];
  /** It runs; absent: its node is still to be told. */
  readonly isDone?: true;
}

/** Cheap clusters answer at once, and are ahead of their standby by this at most. */
const STARTER_BOUND_MS = 1_000;

export function boundOf({ tier }: Pick<VirtualClusterSpec, "tier">): number {
  return tier === "Starter" ? STARTER_BOUND_MS : 0;
}

/** Why a cluster has no standby, whatever nodes there are; undefined = it can have one. */
export function standbyRefusal(
  spec: Pick<VirtualClusterSpec, "backingStore" | "replicas">,
): { readonly reason: string; readonly message: string } | undefined {
  if (spec.replicas > 1)
    return { reason: "HasReplicas", message: "its replicas are on nodes of their own already" };
  if (spec.backingStore === "external")
    return { reason: "ExternalStore", message: "its objects are in an etcd that somebody else runs" };
  return undefined;
}

/** Of the note by which two nodes know each other for it. */
export function standbyLineId(name: string, generation: number): string {
  return `standby-${name}-${generation}`;
}
