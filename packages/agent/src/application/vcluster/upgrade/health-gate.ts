// What a control plane has to show before anybody relies on it.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterParts, ClusterRuns, KeptCluster, RunningClusters } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";

const LOOK_MS = 250;

export interface HealthPorts {
  readonly host: RunningClusters & ClusterRuns & ClusterParts;
  readonly api: ClusterApi;
}

/** Its API answers as the version that it shall be, reads and writes; and nothing of it ends. */
export async function requireHealthy(
  { host, api }: HealthPorts,
  cluster: KeptCluster,
  { clock, signal, log }: Pick<StepContext, "clock" | "signal" | "log">,
  settleMs: number,
): Promise<void> {
  await host.furnish(cluster, signal);
  const { status, body } = await api(cluster, { method: "GET", path: "/version" }, signal);
  const { gitVersion = "nothing" } = (body ?? {}) as { gitVersion?: string };
  if (status !== 200 || gitVersion !== `v${cluster.version}`)
    throw new AppError(
      "internal.error",
      `the API server of ${cluster.name} says that it is ${gitVersion}, not v${cluster.version}`,
    );
  const until = clock.monotonic() + settleMs;
  for (;;) {
    if (!host.isUp(cluster))
      throw new AppError(
        "internal.error",
        `a part of the control plane of ${cluster.name} ended: ${host.lastWords(cluster).slice(-3).join(" | ").slice(-600)}`,
      );
    if (clock.monotonic() >= until) break;
    await clock.sleep(LOOK_MS, signal);
  }
  log(`its API answers as ${gitVersion}, and its parts stay`);
}
