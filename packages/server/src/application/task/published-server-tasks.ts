// What the cluster knows of tasks that servers run. One is stopped by the server that runs it: the wish lies in the store,
// which that server watches.
import { messageOf } from "@gpve/contracts/errors.ts";
import { isServerTask } from "@gpve/domain/task/operation-tasks.ts";
import type { TaskDirectory } from "@gpve/domain/task/ports.ts";
import { taskOfRecord, taskRecordId, type TaskRecord, taskRecords } from "@gpve/domain/task/task-record.ts";
import { type TaskStop, taskStops } from "@gpve/domain/task/task-stops.ts";
import { taskFromUpid, type Task } from "@gpve/domain/task/task.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Entry, Records } from "@gpve/store/records/port.ts";

const LOOK_MS = 100;
/** As long as a stop of what runs here. */
const STOP_LOOKS = 50;

export function publishedServerTasks(
  records: Pick<Records, "collection" | "transact">,
  clock: Pick<Clock, "sleep">,
): TaskDirectory {
  const published = records.collection(taskRecords);
  let from: readonly Entry<TaskRecord>[] | undefined;
  let tasks: readonly Task[] = [];
  const get = (upid: string): Task | undefined => {
    const id = taskRecordId(upid);
    const record = id === undefined ? undefined : published.get(id)?.value;
    const task = record === undefined ? undefined : taskOfRecord(record);
    return task !== undefined && isServerTask(task) ? task : undefined;
  };
  const runs = (upid: string): boolean => {
    const task = get(upid);
    return task !== undefined && task.endtime === undefined;
  };
  return {
    get,
    // Looked through again only when a record changed.
    list: () => {
      const entries = published.list();
      if (entries !== from)
        tasks = entries.flatMap(({ value }) => taskOfRecord(value) ?? []).filter(isServerTask);
      from = entries;
      return tasks;
    },
    stop: async (upid, by) => {
      if (!runs(upid)) return;
      await records.transact((tx) => tx.put(taskStops, upid, { upid, by }));
      for (let looks = 0; looks < STOP_LOOKS && runs(upid); looks++)
        await clock.sleep(LOOK_MS, new AbortController().signal);
    },
  };
}

/** What servers run in the name of one node: of this server as it is, of the others as they have told. */
export function tasksInNameOf(node: string, own: TaskDirectory, published: TaskDirectory): TaskDirectory {
  const holder = (upid: string): TaskDirectory => (own.get(upid) === undefined ? published : own);
  return {
    get: (upid) => holder(upid).get(upid),
    *list() {
      for (const task of own.list()) if (task.node === node) yield task;
      for (const task of published.list())
        if (task.node === node && own.get(task.upid) === undefined) yield task;
    },
    stop: (upid, by) => holder(upid).stop(upid, by),
  };
}

/** Stops what this server runs and another was asked to stop, until the returned function is called. */
export function keepTaskStops(deps: {
  readonly records: Pick<Records, "collection" | "transact">;
  readonly localNode: string;
  readonly own: TaskDirectory;
  readonly log: Logger;
}): () => void {
  const { records, localNode, own, log } = deps;
  const stop = async ({ upid, by }: TaskStop): Promise<void> => {
    try {
      if (own.get(upid) !== undefined) await own.stop(upid, by);
      await records.transact((tx) => tx.delete(taskStops, upid));
    } catch (err) {
      // It stays in the store, and is done when this server starts again.
      log.warn({ task: upid, err: messageOf(err) }, "a task cannot be stopped for another server");
    }
  };
  const heed = (wish: TaskStop): void => {
    if (taskFromUpid(wish.upid)?.node === localNode) background(log, "stopping a task", stop(wish));
  };
  const stops = records.collection(taskStops);
  for (const { value } of stops.list()) heed(value);
  return stops.onChange((_id, entry) => {
    if (entry !== undefined) heed(entry.value);
  });
}
