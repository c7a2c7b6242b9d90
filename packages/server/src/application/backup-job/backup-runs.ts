// When each job last ran on each node. A run is written down before it is started: a crash in between loses that run,
// and none is ever done twice.
import type { Entry } from "@gpve/store/records/port.ts";

export interface BackupJobRun {
  readonly job: string;
  readonly node: string;
  /** Seconds: when it was last started, or found to have nothing to do. */
  readonly last: number;
  /** Its task; absent while it is being started, and when there was nothing to do. */
  readonly upid?: string;
  /** Tasks of its virtual clusters, one each. */
  readonly clusterUpids?: readonly string[];
  /** Why it could not be started. */
  readonly error?: string;
}

export const backupRunCollection = {
  prefix: "/gpve/backup-runs/",
  decode: (json: unknown) => json as BackupJobRun,
};

/** Job ids may hold any character but blanks. */
export function runId(job: string, node: string): string {
  return `${node}/${job}`;
}

export function runIdsOf(runs: readonly Entry<BackupJobRun>[], job: string): string[] {
  return runs.filter(({ value }) => value.job === job).map(({ id }) => id);
}
