// Wires backup jobs into a server: their methods, and the scheduler that one server of the cluster runs.
import { randomUUID } from "node:crypto";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Access } from "./application/access/access.ts";
import { BackupJobs } from "./application/backup-job/backup-jobs.ts";
import { JobScheduler } from "./application/backup-job/job-scheduler.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { hostZone } from "./infrastructure/host/host-zone.ts";
import { whileLeading } from "./infrastructure/leadership/store-leadership.ts";
import { createBackupJobHandlers } from "./presentation/http/cluster/backup-job-handlers.ts";

export interface BackupJobParts {
  readonly records: Records;
  readonly store: Store;
  readonly clock: Clock;
  readonly access: Access;
  readonly board: NodeBoard;
  readonly log: Logger;
  /** Who stands for doing the scheduling. */
  readonly candidate: string;
}

export interface ComposedBackupJobs {
  readonly handlers: PveHandlers;
  /** Until the signal aborts; the returned promise resolves when nothing of it runs any more. */
  startScheduler(calls: NodeCalls, signal: AbortSignal): Promise<void>;
}

export function composeBackupJobs(parts: BackupJobParts): ComposedBackupJobs {
  const { records, store, clock, access, board, log, candidate } = parts;
  const zone = hostZone({ tz: process.env["TZ"] });
  const jobs = new BackupJobs({
    records,
    clock,
    zone,
    newId: randomUUID,
    guests: () =>
      records
        .collection(guestCollection)
        .list()
        .map(({ value }) => value),
    vclusters: () =>
      records
        .collection(vclusterCollection)
        .list()
        .map(({ value }) => value),
    poolMembers: (pool) => access.directory.model().pools.get(pool)?.vms,
  });
  return {
    handlers: createBackupJobHandlers({ jobs, clock, zone }),
    startScheduler(calls, signal) {
      const scheduler = new JobScheduler({
        records,
        jobs,
        board,
        calls,
        clock,
        zone,
        newRequestId: randomUUID,
        log,
      });
      const leading = whileLeading(
        { store, clock, log, name: "/gpve/leaders/backup-jobs/", candidate },
        (lead) => scheduler.run(lead),
        signal,
      );
      background(log, "scheduling backup jobs", leading);
      return leading.catch(() => undefined);
    },
  };
}
