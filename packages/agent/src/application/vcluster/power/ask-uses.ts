// Asks a cluster that nobody is connected to whether something else keeps it awake, as its policy says.
import { AppError } from "@gpve/contracts/errors.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import {
  openSessions,
  requestsOfPods,
  type SignOfUse,
  unfinishedJobs,
} from "@gpve/domain/vcluster/power/signs-of-use.ts";
import { type KeepAwake, type SleepPolicy, sleepPolicyOf } from "@gpve/domain/vcluster/power/sleep-policy.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface AskUsesDeps {
  readonly api: ClusterApi;
  /** What its API server counts. */
  readonly metrics: (cluster: KeptCluster, signal: AbortSignal) => Promise<string>;
  /** What was asked of its API server last, oldest first. */
  readonly auditLines: (cluster: KeptCluster) => readonly string[];
  readonly clock: Pick<Clock, "now">;
}

/** What keeps it awake now; none where its policy names nothing. Throws where that cannot be found out. */
export type AskUses = (cluster: KeptCluster, signal: AbortSignal) => Promise<readonly SignOfUse[]>;

const JOBS = "/apis/batch/v1/jobs";

export function policyOf({ spec }: Pick<KeptCluster, "spec">): SleepPolicy {
  return spec.sleep ?? sleepPolicyOf(spec.tier);
}

export function askUses({ api, metrics, auditLines, clock }: AskUsesDeps): AskUses {
  const asks: Readonly<
    Record<KeepAwake, (cluster: KeptCluster, signal: AbortSignal) => Promise<SignOfUse | undefined>>
  > = {
    async jobs(cluster, signal) {
      const { status, body } = await api(cluster, { method: "GET", path: JOBS }, signal);
      if (status !== 200) throw new AppError("internal.error", `GET ${JOBS} answered ${status}`);
      return unfinishedJobs(body, clock.now());
    },
    sessions: async (cluster, signal) => openSessions(await metrics(cluster, signal), clock.now()),
    pods: async (cluster) =>
      requestsOfPods(auditLines(cluster), clock.now() - policyOf(cluster).afterIdleSeconds * 1_000),
  };
  return async (cluster, signal) => {
    const signs: SignOfUse[] = [];
    for (const kind of policyOf(cluster).keepAwake ?? [])
      signs.push(...[(await asks[kind](cluster, signal)) ?? []].flat());
    return signs;
  };
}
