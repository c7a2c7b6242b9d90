// The records of virtual clusters follow tasks of their nodes: the server that was asked sees the end, and where that is not there
// any more, the one that leads.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { taskRecordId, taskRecords } from "@gpve/domain/task/task-record.ts";
import { statusTypeOf } from "@gpve/domain/task/task.ts";
import { growth, keysOf } from "@gpve/domain/quota/amounts.ts";
import { clusterDemand } from "@gpve/domain/quota/cluster-demand.ts";
import { followed } from "@gpve/domain/vcluster/backup/followed-task.ts";
import {
  keyOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";

export interface FollowDeps {
  readonly records: Records;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
}

/** A node has begun by then, or does not. */
const ASKED_MS = 120_000;
/** Longer than any server takes to ask a node: of what has no task by then nobody hears any more. */
const LEFT_MS = 600_000;
const LOOK_MS = 10_000;
/** Whoever asks a node hears of the end of a task a moment before the records tell of it. */
const TOLD_MS = 5_000;

/** Resolves when its record says what came of the task. */
export async function followTask(
  { records, taskEnd }: FollowDeps,
  key: string,
  upid: string,
  signal: AbortSignal,
): Promise<void> {
  let isDone = true;
  try {
    await taskEnd(upid, signal);
  } catch (err) {
    if (signal.aborted) return;
    // Of anything else nobody knows what came of it.
    if (!isAppError(err, "operation.failed")) throw err;
    isDone = false;
  }
  await records.transact((tx) => {
    const now = tx.get(vclusterCollection, key)?.value;
    if (now?.follows?.upid === upid) tx.put(vclusterCollection, key, followed(now, isDone));
  });
}

/** Resolves when its record follows no task any more, or soon. */
export async function awaitFollowed(
  deps: FollowDeps & { readonly clock: Pick<Clock, "sleep"> },
  record: VirtualClusterRecord,
  signal: AbortSignal,
): Promise<void> {
  const upid = record.follows?.upid;
  if (upid === undefined) return;
  const enough = new AbortController();
  const until = AbortSignal.any([signal, enough.signal]);
  try {
    await Promise.race([followTask(deps, keyOf(record), upid, until), deps.clock.sleep(TOLD_MS, until)]);
  } finally {
    enough.abort();
  }
}

/** As it is now that what it has followed is over; throws while it is not. */
export function settledRecord(
  tx: Pick<Tx, "get">,
  record: VirtualClusterRecord,
  now: number,
): VirtualClusterRecord {
  const { follows, ...alone } = record;
  if (follows === undefined) return record;
  const { upid, at, replaced } = follows;
  const id = upid === undefined ? undefined : taskRecordId(upid);
  const task = id === undefined ? undefined : tx.get(taskRecords, id)?.value;
  if (task?.exitstatus !== undefined) return followed(record, statusTypeOf(task.exitstatus) !== "error");
  // It was never begun, or its node is made anew: of what nobody knows the end of, what there is more of counts.
  if (task === undefined && now - at > ASKED_MS)
    return replaced !== undefined && hasMore(replaced, record.spec) ? { ...alone, spec: replaced } : alone;
  const what =
    replaced === undefined
      ? `virtual cluster '${record.name}' is being upgraded`
      : `a backup is being put in place of virtual cluster '${record.name}'`;
  throw new AppError(
    "object.conflict",
    `${what}: wait for the end of that${upid === undefined ? "" : ` (${upid})`}`,
  );
}

function hasMore(one: VirtualClusterSpec, other: VirtualClusterSpec): boolean {
  return keysOf(growth(clusterDemand(other), clusterDemand(one))).length > 0;
}

export interface KeepFollowedDeps extends FollowDeps {
  readonly clock: Clock;
  readonly log: Pick<Logger, "error">;
}

/** Where the server that was asked has ended since. */
export class KeepFollowed {
  readonly #deps: KeepFollowedDeps;
  /** Tasks whose end is waited for. */
  readonly #awaited = new Set<string>();

  constructor(deps: KeepFollowedDeps) {
    this.#deps = deps;
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await every(LOOK_MS, { clock: this.#deps.clock, signal }, () => this.look(signal));
  }

  look(signal: AbortSignal): void {
    const { records, clock, log } = this.#deps;
    for (const { value: record } of records.collection(vclusterCollection).list()) {
      const { follows } = record;
      if (follows === undefined) continue;
      const { upid } = follows;
      const id = upid === undefined ? undefined : taskRecordId(upid);
      const hasTask = id !== undefined && records.collection(taskRecords).get(id) !== undefined;
      if (!hasTask && clock.now() - follows.at > LEFT_MS) {
        background(log, `what virtual cluster ${record.name} has followed`, this.#settle(record));
        continue;
      }
      if (upid === undefined || this.#awaited.has(upid)) continue;
      this.#awaited.add(upid);
      const followedNow = followTask(this.#deps, keyOf(record), upid, signal).finally(() =>
        this.#awaited.delete(upid),
      );
      background(log, `what follows a task of virtual cluster ${record.name}`, followedNow);
    }
  }

  async #settle(record: VirtualClusterRecord): Promise<void> {
    const { records, clock } = this.#deps;
    await records.transact((tx) => {
      const now = tx.get(vclusterCollection, keyOf(record))?.value;
      if (now?.follows === undefined || now.follows.at !== record.follows?.at) return;
      tx.put(vclusterCollection, keyOf(record), settledRecord(tx, now, clock.now()));
    });
  }
}
