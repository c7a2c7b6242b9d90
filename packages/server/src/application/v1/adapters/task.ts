import { given } from "@gpve/contracts/given.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { taskKind } from "@gpve/contracts/v1/kinds/task.ts";
import { taskOfRecord, taskRecordId, type TaskRecord, taskRecords } from "@gpve/domain/task/task-record.ts";
import { EXIT_INTERRUPTED, statusTypeOf, type Task } from "@gpve/domain/task/task.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { byName, type KindAdapter, type RawObject } from "../adapter.ts";

/** Of an operation. */
export interface TaskProgress {
  /** 0 to 1. */
  readonly progress: number;
  readonly progressText?: string | undefined;
}

export interface TaskAdapterDeps {
  /** What this process knows about a task that runs in it. */
  readonly running: (upid: string) => TaskProgress | undefined;
}

/** Tasks of all nodes. */
export function taskAdapter(deps: TaskAdapterDeps): KindAdapter {
  const raw = (entry: Entry<TaskRecord>): RawObject | undefined => {
    const task = taskOfRecord(entry.value);
    if (task === undefined) return undefined;
    return {
      name: task.upid,
      spec: { node: task.node, type: task.type, id: task.id, user: task.authid },
      status: statusOf(task, task.endtime === undefined ? deps.running(task.upid) : undefined),
      revision: entry.revision,
      createRevision: entry.createRevision,
      generation: 1,
      createdAt: task.starttime * 1000,
    };
  };
  return {
    kind: taskKind,
    collections: [taskRecords as CollectionDef<unknown>],
    list: (reader) =>
      reader
        .list(taskRecords)
        .map(raw)
        .filter((object) => object !== undefined)
        .toSorted(byName),
    get: (reader, name) => {
      const id = taskRecordId(name);
      const entry = id === undefined ? undefined : reader.get(taskRecords, id);
      return entry === undefined ? undefined : raw(entry);
    },
    onChange: (records, changed) =>
      records.collection(taskRecords).onChange((id) => changed([id.slice(id.indexOf("/") + 1)])),
  };
}

function statusOf(task: Task, running: TaskProgress | undefined): Fields {
  return {
    phase: phaseOf(task),
    startedAt: new Date(task.starttime * 1000).toISOString(),
    ...given({ exitStatus: task.exitstatus }),
    ...(task.endtime === undefined ? {} : { endedAt: new Date(task.endtime * 1000).toISOString() }),
    ...given({ progress: running?.progress, step: running?.progressText }),
  };
}

function phaseOf(task: Task): string {
  if (task.exitstatus === undefined) return "running";
  if (task.exitstatus === EXIT_INTERRUPTED) return "cancelled";
  switch (statusTypeOf(task.exitstatus)) {
    case "ok":
      return "succeeded";
    case "warning":
      return "warnings";
    case "error":
    case "unknown":
      return "failed";
  }
}
