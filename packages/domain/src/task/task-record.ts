// Task records in the cluster store: /gpve/tasks/<node>/<upid>. What every server shows of all nodes' tasks.
import type { RecordCollection } from "../record/collection.ts";
import { taskFromUpid } from "./task.ts";
import type { Task } from "./task.ts";

export const TASK_PREFIX = "/gpve/tasks/";

export const taskRecords: RecordCollection<TaskRecord> = { prefix: TASK_PREFIX, decode: decodeTaskRecord };

/** All else is in the UPID itself. */
export interface TaskRecord {
  readonly upid: string;
  readonly endtime?: number;
  readonly exitstatus?: string;
}

/** The record's id below the prefix; undefined = not a UPID. */
export function taskRecordId(upid: string): string | undefined {
  const task = taskFromUpid(upid);
  return task === undefined ? undefined : `${task.node}/${upid}`;
}

export function recordOfTask(task: Task): TaskRecord {
  const { upid, endtime, exitstatus } = task;
  return endtime === undefined || exitstatus === undefined ? { upid } : { upid, endtime, exitstatus };
}

export function taskOfRecord(record: TaskRecord): Task | undefined {
  const { upid, endtime, exitstatus } = record;
  if (endtime === undefined || exitstatus === undefined) return taskFromUpid(upid);
  return taskFromUpid(upid, { endtime, exitstatus });
}

/** `task` undefined: its record and log are gone. */
export interface TaskChange {
  readonly upid: string;
  readonly task: Task | undefined;
}

/** A transaction on the task records. */
export interface TaskRecordTx {
  get(id: string): TaskRecord | undefined;
  put(id: string, record: TaskRecord): void;
  delete(id: string): void;
}

/** Writes only what is new: the same news may come twice. */
export function applyTaskChanges(tx: TaskRecordTx, changes: readonly TaskChange[]): void {
  for (const { upid, task } of changes) {
    const id = taskRecordId(upid);
    if (id === undefined) continue;
    const before = tx.get(id);
    if (task === undefined) {
      if (before !== undefined) tx.delete(id);
    } else if (before === undefined || before.exitstatus !== task.exitstatus) tx.put(id, recordOfTask(task));
  }
}

/** Throws on anything that is not a task record. */
export function decodeTaskRecord(json: unknown): TaskRecord {
  const fields = typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
  const { upid, endtime, exitstatus } = fields;
  if (typeof upid !== "string" || taskFromUpid(upid) === undefined)
    throw new Error("a task record has no UPID");
  return typeof endtime === "number" && typeof exitstatus === "string"
    ? { upid, endtime, exitstatus }
    : { upid };
}
