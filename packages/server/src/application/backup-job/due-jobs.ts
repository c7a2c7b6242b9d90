// Starts backup jobs when they are due, on every node that has guests of theirs. One server does it at a time; two that
// both believe it is them still start nothing twice, because a run is claimed by a compared write.
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import {
  backupJobCollection,
  clusterRunParameters,
  isEnabled,
  runParameters,
  calendarOf,
  type BackupJob,
} from "@gpve/domain/backup/backup-job.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { nextEvent } from "@gpve/domain/calendar/next-event.ts";
import type { ZoneOffset } from "@gpve/domain/calendar/time-zone.ts";
import { keyOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { everyDue } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { asSystem } from "../node/as-system.ts";
import { noteVolumes } from "../vcluster/volumes/note-volumes.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { taskOf } from "../task/task-of.ts";
import type { BackupJobs } from "./backup-jobs.ts";
import { backupRunCollection, runId, type BackupJobRun } from "./backup-runs.ts";

export interface DueJobsDeps {
  readonly records: Records;
  readonly jobs: BackupJobs;
  readonly board: NodeBoard;
  readonly calls: NodeCalls;
  readonly clock: Clock;
  readonly zone: () => ZoneOffset;
  readonly newRequestId: () => string;
  readonly log: Logger;
}

interface Due {
  readonly vmids: readonly number[];
  readonly clusters: readonly VirtualClusterRecord[];
  /** When it began; seconds. */
  readonly last: number;
}

/** Other servers and the calendar itself may change without a word to this one. */
const LOOK_AT_LEAST_EVERY_MS = 30_000;
const LOOK_AT_MOST_EVERY_MS = 1_000;
/** What fell due while leadership went from one server to the next is not missed. */
const HANDOVER_SECONDS = 60;
/** A task's record comes a moment after the task. */
const RECORD_DELAY_SECONDS = 30;

export class DueJobs {
  readonly #deps: DueJobsDeps;

  constructor(deps: DueJobsDeps) {
    this.#deps = deps;
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, records, log } = this.#deps;
    const startedAt = this.#now() - HANDOVER_SECONDS;
    let nextAt: number | undefined;
    const waitMs = (): number => (nextAt ?? Number.POSITIVE_INFINITY) * 1000 - clock.now();
    await everyDue(
      {
        clock,
        signal,
        watch: (changed) => records.collection(backupJobCollection).onChange(changed),
        waitMs: () => Math.min(Math.max(waitMs(), LOOK_AT_MOST_EVERY_MS), LOOK_AT_LEAST_EVERY_MS),
        failed: (err) =>
          log.error({ err: messageOf(err) }, "backup jobs could not be looked at; trying again"),
      },
      async () => {
        nextAt = undefined;
        await this.startDue(startedAt, signal);
        nextAt = this.#nextAt(startedAt);
      },
    );
  }

  /** One look at all jobs. Events before `startedAt` were missed, and only jobs that repeat missed runs do them. */
  async startDue(startedAt: number, signal: AbortSignal): Promise<void> {
    for (const job of this.#deps.jobs.jobs().filter(isEnabled)) {
      await Promise.all(this.#nodesOf(job).map((node) => this.#startIfDue(job, node, startedAt, signal)));
    }
  }

  async #startIfDue(job: BackupJob, node: string, startedAt: number, signal: AbortSignal): Promise<void> {
    const now = this.#now();
    const due = this.#dueAt(job, node, startedAt);
    if (due === undefined || due > now) return;
    const health = this.#deps.board.get(node)?.health ?? "unknown";
    const online = health === "online";
    // Nothing heard of it yet: it may speak up in a moment.
    if (health === "unknown" || (!online && job.options["repeat-missed"] === true)) return;
    const vmids = this.#deps.jobs
      .included(job)
      .filter((guest) => guest.node === node)
      .map(({ vmid }) => vmid);
    const clusters = this.#deps.jobs.clusters(job).filter((cluster) => cluster.node === node);
    const idle = vmids.length + clusters.length === 0;
    const claimed = await this.#claim(job, node, startedAt, {
      job: job.id,
      node,
      last: now,
      ...(!idle && !online ? { error: `node '${node}' is offline` } : {}),
    });
    if (!claimed || idle) return;
    if (!online) {
      this.#deps.log.warn({ job: job.id, node }, "a backup job is missed: the node is offline");
      return;
    }
    await this.#start(job, node, { vmids, clusters, last: now }, signal);
  }

  async #start(
    job: BackupJob,
    node: string,
    { vmids, clusters, last }: Due,
    signal: AbortSignal,
  ): Promise<void> {
    const { log, records } = this.#deps;
    const failures: string[] = [];
    /** Answers with the task; undefined = the node had nothing to do, or refused. */
    const begin = async (about: object, call: () => Promise<unknown>): Promise<string | undefined> => {
      try {
        if (!this.#deps.calls.knows(node)) throw new Error(`no such cluster node '${node}'`);
        const data = await call();
        const upid = typeof data === "string" && data.startsWith("UPID:") ? data : undefined;
        log.info({ job: job.id, node, ...about, ...given({ upid }) }, "backup job started");
        return upid;
      } catch (err) {
        failures.push(messageOf(err));
        log.error({ job: job.id, node, ...about, err: messageOf(err) }, "a backup job could not be started");
        return undefined;
      }
    };
    const ctx = this.#context(signal);
    const upid =
      vmids.length === 0
        ? undefined
        : await begin({ vmids }, async () => {
            const route = "POST /nodes/{node}/vzdump" as const;
            return (await this.#deps.calls.call(node, route, runParameters(job, vmids), ctx)).data;
          });
    const clusterUpids: string[] = [];
    for (const cluster of clusters) {
      const { tenant } = cluster;
      const vcluster = keyOf(cluster);
      const begun = await begin({ vcluster }, async () => {
        const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/backup" as const;
        const { requestId } = ctx;
        const notes = await noteVolumes(this.#deps, cluster, node, `${requestId}-${vcluster}`);
        const params = { vcluster, tenant, requestId, ...clusterRunParameters(job), ...notes };
        return (await this.#deps.calls.call(node, route, params, ctx)).data;
      });
      if (begun !== undefined) clusterUpids.push(begun);
    }
    const outcome = {
      ...given({ upid }),
      ...(clusterUpids.length === 0 ? {} : { clusterUpids }),
      ...(failures.length === 0 ? {} : { error: failures.join("; ") }),
    };
    await records.transact((tx) => {
      const id = runId(job.id, node);
      // Removed meanwhile: nothing is left behind.
      if (Object.keys(outcome).length === 0 || tx.get(backupJobCollection, job.id) === undefined) return;
      tx.put(backupRunCollection, id, { job: job.id, node, last, ...outcome });
    });
  }

  #context(signal: AbortSignal) {
    return asSystem({ work: "backup-job", requestId: this.#deps.newRequestId(), signal });
  }

  /** False when another server was quicker, or the job changed meanwhile. */
  #claim(job: BackupJob, node: string, startedAt: number, run: BackupJobRun): Promise<boolean> {
    return this.#deps.records.transact((tx) => {
      const current = tx.get(backupJobCollection, job.id)?.value;
      const before = tx.get(backupRunCollection, runId(job.id, node))?.value;
      if (current === undefined || !isEnabled(current)) return false;
      const due = this.#eventAfter(current, before, startedAt);
      if (due === undefined || due > run.last) return false;
      tx.put(backupRunCollection, runId(job.id, node), run);
      return true;
    });
  }

  /** undefined = never, or not before the run of last time has ended. */
  #dueAt(job: BackupJob, node: string, startedAt: number): number | undefined {
    const run = this.#deps.records.collection(backupRunCollection).get(runId(job.id, node))?.value;
    return this.#isRunning(run) ? undefined : this.#eventAfter(job, run, startedAt);
  }

  #eventAfter(job: BackupJob, run: BackupJobRun | undefined, startedAt: number): number | undefined {
    const event = calendarOf(job);
    if (event === undefined) return undefined;
    const missedBefore = job.options["repeat-missed"] === true ? 0 : startedAt;
    return nextEvent(event, Math.max(job.since, run?.last ?? 0, missedBefore), this.#deps.zone());
  }

  #isRunning(run: BackupJobRun | undefined): boolean {
    if (run === undefined) return false;
    const { upid, clusterUpids = [], last } = run;
    return [...(upid === undefined ? [] : [upid]), ...clusterUpids].some((each) => {
      const record = taskOf(this.#deps.records, each);
      if (record === undefined) return this.#now() - last < RECORD_DELAY_SECONDS;
      return record.endtime === undefined;
    });
  }

  #nextAt(startedAt: number): number | undefined {
    const times = this.#deps.jobs
      .jobs()
      .filter(isEnabled)
      .flatMap((job) => this.#nodesOf(job).map((node) => this.#dueAt(job, node, startedAt)))
      .filter((at): at is number => at !== undefined);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  #nodesOf(job: BackupJob): string[] {
    const nodes = this.#deps.board.list().map(({ node }) => node);
    return job.options["node"] === undefined ? nodes : nodes.filter((node) => node === job.options["node"]);
  }

  #now(): number {
    return Math.floor(this.#deps.clock.now() / 1000);
  }
}
