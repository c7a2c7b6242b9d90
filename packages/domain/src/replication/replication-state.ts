// What became of a replication job so far, and when it runs next. A failed run is tried again sooner than its calendar says.
import { given } from "@gpve/contracts/given.ts";
import { nextEvent } from "../calendar/next-event.ts";
import type { ZoneOffset } from "../calendar/time-zone.ts";
import { taskFromUpid } from "../task/task.ts";
import { calendarOfReplication, shownReplicationJob, type ReplicationJob } from "./replication-job.ts";

/** Of a run that was begun and of whose end nobody has heard. Times are seconds. */
export interface ReplicationRun {
  readonly upid?: string;
  readonly node: string;
  readonly target: string;
  readonly at: number;
}

export interface ReplicationState {
  readonly lastTry?: number;
  /** The copy is as the VM was then. */
  readonly lastSync?: number;
  readonly failCount: number;
  readonly duration?: number;
  readonly error?: string;
  readonly run?: ReplicationRun;
  /** The task that ran last, and its node. */
  readonly last?: { readonly upid: string; readonly node: string };
  /** Somebody wants it now. */
  readonly isWanted?: boolean;
  /** Nodes that have a copy, and of when it is. */
  readonly replicas?: Readonly<Record<string, number>>;
}

export const noReplicationYet: ReplicationState = { failCount: 0 };

export const replicationStateCollection = {
  prefix: "/gpve/replication/states/",
  decode: (json: unknown): ReplicationState => ({ ...noReplicationYet, ...(json as object) }),
};

const MINUTE = 60;
const RETRY_MINUTES = 5;
const LAST_RETRY_MINUTES = 30;
const RETRIES_THAT_GROW = 3;

/** Seconds; undefined = never, or it runs now. */
export function nextSync(job: ReplicationJob, state: ReplicationState, zone: ZoneOffset): number | undefined {
  if (state.run !== undefined) return undefined;
  const { failCount, lastTry = 0 } = state;
  const isRemoved = job.remove_job !== undefined;
  if (state.isWanted === true || (isRemoved && failCount === 0)) return 0;
  if (job.disable === true && !isRemoved) return undefined;
  if (failCount > 0)
    return (
      lastTry + MINUTE * (failCount < RETRIES_THAT_GROW ? RETRY_MINUTES * failCount : LAST_RETRY_MINUTES)
    );
  return nextEvent(calendarOfReplication(job), Math.max(job.since, lastTry), zone);
}

export function begunRun(state: ReplicationState, run: ReplicationRun): ReplicationState {
  const { isWanted: _wanted, ...rest } = state;
  return { ...rest, run, lastTry: run.at };
}

/** `error` undefined: the copy is as the VM was when the run began. */
export function endedRun(
  state: ReplicationState,
  end: { readonly at: number; readonly error?: string | undefined },
): ReplicationState {
  const { run, error: _before, ...rest } = state;
  if (run === undefined) return state;
  const last = run.upid === undefined ? state.last : { upid: run.upid, node: run.node };
  const ended = { ...rest, duration: Math.max(0, end.at - run.at), ...given({ last }) };
  if (end.error !== undefined) return { ...ended, failCount: state.failCount + 1, error: end.error };
  const replicas = { ...state.replicas, [run.target]: run.at };
  return { ...ended, failCount: 0, lastSync: run.at, replicas };
}

/** Where copies are that the job keeps no longer. */
export function staleReplicas(job: ReplicationJob | undefined, state: ReplicationState): readonly string[] {
  return Object.keys(state.replicas ?? {}).filter((node) => node !== job?.target);
}

export function withoutReplica(state: ReplicationState, node: string): ReplicationState {
  const { [node]: _gone, ...replicas } = state.replicas ?? {};
  return { ...state, replicas };
}

/** A row of `GET /nodes/{node}/replication`. */
export function replicationStatus(
  job: ReplicationJob,
  state: ReplicationState,
  about: { readonly source: string; readonly vmtype: string; readonly zone: ZoneOffset },
): Record<string, unknown> {
  const next = nextSync(job, state, about.zone);
  const pid = state.run?.upid === undefined ? undefined : taskFromUpid(state.run.upid)?.pid;
  return {
    ...shownReplicationJob(job, about.source),
    schedule: job.schedule ?? "*/15",
    vmtype: about.vmtype,
    last_sync: state.lastSync ?? 0,
    last_try: state.lastTry ?? 0,
    fail_count: state.failCount,
    ...given({ next_sync: next, duration: state.duration, error: state.error, pid }),
  };
}
