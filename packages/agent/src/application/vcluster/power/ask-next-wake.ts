// Asks a cluster that is about to sleep when it has to be awake again.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ZoneOffset } from "@gpve/domain/calendar/time-zone.ts";
import { nextWake } from "@gpve/domain/vcluster/power/next-wake.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { policyOf } from "./ask-uses.ts";
import type { PowerOperationDeps } from "./power-operations.ts";

export interface AskNextWakeDeps {
  readonly api: ClusterApi;
  readonly clock: Clock;
  readonly zone: () => ZoneOffset;
}

const CRON_JOBS = "/apis/batch/v1/cronjobs";

export function askNextWake({ api, clock, zone }: AskNextWakeDeps): PowerOperationDeps["nextWake"] {
  return async (cluster, signal) => {
    const { status, body } = await api(cluster, { method: "GET", path: CRON_JOBS }, signal);
    if (status !== 200) throw new AppError("internal.error", `GET ${CRON_JOBS} answered ${status}`);
    return nextWake(body, policyOf(cluster), { now: clock.now(), zone: zone() });
  };
}
