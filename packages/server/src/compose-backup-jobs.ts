// Wires backup jobs into a server: their methods, and what starts those that are due, on one server of the cluster.
import { randomUUID } from "node:crypto";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Access } from "./application/access/access.ts";
import { BackupJobs } from "./application/backup-job/backup-jobs.ts";
import { DueJobs } from "./application/backup-job/due-jobs.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { hostZone } from "./infrastructure/host/host-zone.ts";
import type { Lead } from "./infrastructure/leadership/store-leadership.ts";
import { createBackupJobHandlers } from "./presentation/http/cluster/backup-job-handlers.ts";

export interface BackupJobParts {
  readonly records: Records;
  readonly clock: Clock;
  readonly access: Access;
  readonly board: NodeBoard;
  readonly log: Logger;
  readonly lead: Lead;
}

export interface ComposedBackupJobs {
  readonly handlers: PveHandlers;
  /** Until the signal aborts; the returned promise resolves when nothing of it runs any more. */
  start(calls: NodeCalls, signal: AbortSignal): Promise<void>;
}

export function composeBackupJobs(parts: BackupJobParts): ComposedBackupJobs {
  const { records, clock, access, board, log, lead } = parts;
  const zone = hostZone({ tz: process.env["TZ"] });
  const jobs = new BackupJobs({
    records,
    clock,
    zone,
    newId: randomUUID,
    poolMembers: (pool) => access.directory.model().pools.get(pool)?.vms,
  });
  return {
    handlers: createBackupJobHandlers({ jobs, clock, zone }),
    start(calls, signal) {
      const due = new DueJobs({
        records,
        jobs,
        board,
        calls,
        clock,
        zone,
        newRequestId: randomUUID,
        log,
      });
      return lead("backup-jobs", (leading) => due.run(leading), signal);
    },
  };
}
