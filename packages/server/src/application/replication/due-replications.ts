// Runs replication jobs when they are due, and clears away what they leave. One server does it at a time; two that both
// believe it is them still start nothing twice, because a run is claimed by a compared write.
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { ZoneOffset } from "@gpve/domain/calendar/time-zone.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { moveCollection, moveId } from "@gpve/domain/guest/guest-move.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { replicationCollection, type ReplicationJob } from "@gpve/domain/replication/replication-job.ts";
import {
  begunRun,
  endedRun,
  nextSync,
  noReplicationYet,
  replicationStateCollection,
  staleReplicas,
  withoutReplica,
  type ReplicationRun,
  type ReplicationState,
} from "@gpve/domain/replication/replication-state.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { everyDue } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { noteMove } from "../node/guest-moves.ts";
import { taskOf } from "../task/task-of.ts";
import { forgetJob, type ReplicationJobs } from "./replication-jobs.ts";
import { byReplication } from "./replication-work.ts";

export interface DueReplicationsDeps {
  readonly records: Records;
  readonly jobs: ReplicationJobs;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  readonly clock: Clock;
  readonly zone: () => ZoneOffset;
  readonly newRequestId: () => string;
  readonly log: Logger;
}

const LOOK_AT_LEAST_EVERY_MS = 15_000;
const LOOK_AT_MOST_EVERY_MS = 250;
/** A task's record comes a moment after the task. */
const RECORD_DELAY_SECONDS = 60;

export class DueReplications {
  readonly #deps: DueReplicationsDeps;

  constructor(deps: DueReplicationsDeps) {
    this.#deps = deps;
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, records, log } = this.#deps;
    const watch = (changed: () => void): (() => void) => {
      const stops = [replicationCollection, replicationStateCollection, taskRecords].map((each) =>
        records.collection<unknown>(each).onChange(changed),
      );
      return () => {
        for (const stop of stops) stop();
      };
    };
    await everyDue(
      {
        clock,
        signal,
        watch,
        restMs: LOOK_AT_MOST_EVERY_MS,
        waitMs: () => this.#waitMs(),
        failed: (err) =>
          log.error({ err: messageOf(err) }, "replication jobs could not be looked at; trying again"),
      },
      () => this.look(signal),
    );
  }

  /** One look at all jobs. */
  async look(signal: AbortSignal): Promise<void> {
    for (const job of this.#deps.jobs.jobs()) {
      await this.#settle(job.id);
      const state = this.#deps.jobs.stateOf(job.id);
      if (state.run !== undefined) continue;
      await this.#clearStale(job, state, signal);
      const due = nextSync(job, state, this.#deps.zone());
      if (due === undefined || due > this.#now()) continue;
      if (job.remove_job === undefined) await this.#start(job, signal);
      else await this.#remove(job, signal);
    }
  }

  /** What became of the run that was begun. */
  async #settle(id: string): Promise<void> {
    const { run } = this.#deps.jobs.stateOf(id);
    if (run === undefined) return;
    const end = this.#endOf(run);
    if (end !== undefined) await this.#change(id, (state) => endedRun(state, end));
  }

  #endOf(run: ReplicationRun): { readonly at: number; readonly error?: string | undefined } | undefined {
    const now = this.#now();
    const record = run.upid === undefined ? undefined : taskOf(this.#deps.records, run.upid);
    if (record?.endtime !== undefined) {
      const { endtime: at, exitstatus = "unexpected status" } = record;
      return /^(?:OK|WARNINGS: \d+)$/.test(exitstatus) ? { at } : { at, error: exitstatus };
    }
    if (this.#deps.board.get(run.node)?.health === "offline")
      return { at: now, error: `node '${run.node}' went away meanwhile` };
    return record === undefined && now - run.at > RECORD_DELAY_SECONDS
      ? { at: now, error: "nobody knows what became of the last run" }
      : undefined;
  }

  async #start(job: ReplicationJob, signal: AbortSignal): Promise<void> {
    const { records, log } = this.#deps;
    const { guest: vmid, target, rate, replaces } = job;
    const node = this.#deps.jobs.sourceOf(job);
    if (node === undefined || node === target) return;
    const requestId = this.#deps.newRequestId();
    const run: ReplicationRun = { node, target, at: this.#now() };
    const problem = this.#problem(node, target);
    const claimed = await records.transact((tx) => {
      const current = tx.get(replicationCollection, job.id)?.value;
      const state = tx.get(replicationStateCollection, job.id)?.value ?? noReplicationYet;
      const due = current === undefined ? undefined : nextSync(current, state, this.#deps.zone());
      if (due === undefined || due > run.at || current?.target !== target) return false;
      if (tx.get(guestCollection, String(vmid))?.value.node !== node) return false;
      const begun = begunRun(state, run);
      const next = problem === undefined ? begun : endedRun(begun, { at: run.at, error: problem });
      tx.put(replicationStateCollection, job.id, next);
      if (problem === undefined) {
        // What earlier runs were allowed nobody else takes away.
        for (const { id, value } of records.collection(moveCollection).list())
          if (value.vmid === vmid && value.purpose === "replica" && value.to.node === target)
            tx.delete(moveCollection, id);
        noteMove(tx, {
          vmid,
          id: requestId,
          from: node,
          to: target,
          at: this.#deps.clock.now(),
          purpose: "replica",
        });
      }
      return problem === undefined;
    });
    if (!claimed) return;
    try {
      const asked = { vmid, job: job.id, target, moveId: requestId, ...given({ rate }) };
      const { data: upid } = await this.#deps.calls.call(
        node,
        "POST /gpve/nodes/{node}/vms/{vmid}/replicate",
        { ...asked, ...(replaces === undefined ? {} : { replaces: [...replaces] }) },
        byReplication(requestId, signal),
      );
      await this.#change(job.id, (state) => ({ ...state, run: { ...run, upid } }));
    } catch (err) {
      log.error({ job: job.id, node, err: messageOf(err) }, "a replication job could not be started");
      const end = { at: this.#now(), error: messageOf(err) };
      await this.#change(job.id, (state) => endedRun(state, end));
      await records.transact((tx) => {
        const id = moveId(vmid, requestId);
        if (tx.get(moveCollection, id) !== undefined) tx.delete(moveCollection, id);
      });
    }
  }

  #problem(node: string, target: string): string | undefined {
    const away = [node, target].find((each) => this.#deps.board.get(each)?.health !== "online");
    return away === undefined ? undefined : `node '${away}' is not online`;
  }

  /** Copies on nodes that the job does not name any more. */
  async #clearStale(job: ReplicationJob, state: ReplicationState, signal: AbortSignal): Promise<void> {
    for (const node of staleReplicas(job, state)) {
      if (this.#deps.board.get(node)?.health !== "online") continue;
      try {
        await this.#drop(node, job.guest, false, signal);
        await this.#change(job.id, (now) => withoutReplica(now, node));
      } catch (err) {
        this.#deps.log.warn({ job: job.id, node, err: messageOf(err) }, "an old copy could not be removed");
      }
    }
  }

  async #remove(job: ReplicationJob, signal: AbortSignal): Promise<void> {
    const keep = job.remove_job === "local";
    const state = this.#deps.jobs.stateOf(job.id);
    try {
      if (state.replicas?.[job.target] !== undefined || state.last !== undefined)
        await this.#drop(job.target, job.guest, keep, signal);
      await this.#deps.records.transact((tx) => {
        if (tx.get(replicationCollection, job.id)?.value.remove_job !== undefined) forgetJob(tx, job.id);
      });
    } catch (err) {
      const run = { node: job.target, target: job.target, at: this.#now() };
      const error = `the copy on node '${job.target}' cannot be removed: ${messageOf(err)}`;
      await this.#change(job.id, (now) => endedRun(begunRun(now, run), { at: run.at, error }));
    }
  }

  async #drop(node: string, vmid: number, keep: boolean, signal: AbortSignal): Promise<void> {
    await this.#deps.calls.call(
      node,
      "DELETE /gpve/nodes/{node}/vms/{vmid}/replica",
      { vmid, keep },
      byReplication(this.#deps.newRequestId(), signal),
    );
  }

  async #change(id: string, next: (state: ReplicationState) => ReplicationState): Promise<void> {
    await this.#deps.records.transact((tx) => {
      if (tx.get(replicationCollection, id) === undefined) return;
      const state = tx.get(replicationStateCollection, id)?.value ?? noReplicationYet;
      tx.put(replicationStateCollection, id, next(state));
    });
  }

  #waitMs(): number {
    const { jobs, zone, clock } = this.#deps;
    const times = jobs.jobs().map((job) => nextSync(job, jobs.stateOf(job.id), zone()));
    const next = Math.min(...times.filter((at): at is number => at !== undefined && at > this.#now()));
    return Math.min(next * 1000 - clock.now(), LOOK_AT_LEAST_EVERY_MS);
  }

  #now(): number {
    return Math.floor(this.#deps.clock.now() / 1000);
  }
}
