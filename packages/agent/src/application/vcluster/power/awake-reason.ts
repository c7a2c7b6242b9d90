// Whether a cluster may fall asleep by itself, and what of all that counts keeps it awake.
import type { FrontActivity } from "@gpve/domain/vcluster/cluster-front.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { AwakeReason } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { policyOf } from "./ask-uses.ts";

export interface SeenUse {
  readonly now: number;
  /** Since when it counts as awake. */
  readonly since: number;
  readonly activity: FrontActivity;
  /** What else was seen when it was asked last. */
  readonly uses: readonly string[];
}

export function isAwake({ phase, asleep, isWanted }: KeptCluster): boolean {
  return phase === "Running" && asleep === undefined && isWanted;
}

export function mayFallAsleep(cluster: KeptCluster): boolean {
  return isAwake(cluster) && !isBranch(cluster) && policyOf(cluster).mode !== "none";
}

/** Somebody said until when it is to be awake. */
export function isHeld({ heldUntil = 0 }: KeptCluster, now: number): boolean {
  return now < heldUntil;
}

/** All that holds, the weightiest first. No figure that changes by itself is in it: what is told is told anew only when it changes. */
export function awakeReason(cluster: KeptCluster, { now, since, activity, uses }: SeenUse): AwakeReason {
  const { afterIdleSeconds } = policyOf(cluster);
  const isRecent = (at: number): boolean => now - at < afterIdleSeconds * 1_000;
  const { lastAt, connections } = activity;
  const reasons: AwakeReason[] = [];
  if (isHeld(cluster, now))
    reasons.push({
      reason: "Held",
      message: `it is held awake until ${new Date(cluster.heldUntil ?? 0).toISOString()}`,
    });
  if (isRecent(lastAt))
    reasons.push({
      reason: "Connections",
      message:
        connections > 0
          ? "tenants are connected"
          : `a tenant was connected in the last ${afterIdleSeconds} s`,
    });
  if (uses.length > 0) reasons.push({ reason: "InUse", message: uses.join(", ") });
  if (reasons.length === 0 && isRecent(since))
    reasons.push({
      reason: "Woken",
      message: `it was found awake, or woke, in the last ${afterIdleSeconds} s${since > now ? ", for a job" : ""}`,
    });
  const [first] = reasons;
  if (first === undefined) return { reason: "Idle", message: "nothing is seen to use it: it sleeps soon" };
  return { reason: first.reason, message: reasons.map(({ message }) => message).join("; ") };
}
