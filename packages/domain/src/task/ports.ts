import type { TaskChange, TaskRecord } from "./task-record.ts";
import type { Task } from "./task.ts";

/** Where the tasks of a process are known: an operation engine, seen as tasks. */
export interface TaskDirectory {
  get(upid: string): Task | undefined;
  list(): Iterable<Task>;
  /** Asks a task to end. Resolves when it has ended or after a few seconds; an ended task is no error. */
  stop(upid: string, by: string): Promise<void>;
}

export interface TaskLogRow {
  readonly n: number;
  readonly t: string;
}

export interface TaskLogReader {
  /** `limit` 0 = all. undefined = there is no log of that task. */
  read(
    upid: string,
    start: number,
    limit: number,
  ): Promise<{ readonly rows: readonly TaskLogRow[]; readonly total: number } | undefined>;
  /** The whole log as it is now. undefined = there is none. */
  stream(upid: string): AsyncIterable<Uint8Array> | undefined;
}

/** Tells the cluster about tasks: once when one is accepted, once when it has ended. */
export interface TaskPublisher {
  /** All or nothing; may be told the same thing twice. */
  apply(changes: readonly TaskChange[]): Promise<void>;
  /** What the cluster knows of one node's tasks. */
  published(node: string): Promise<readonly TaskRecord[]>;
}
