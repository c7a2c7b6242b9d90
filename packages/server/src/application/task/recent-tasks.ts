// The tasks of all nodes as /cluster/tasks shows them: everything that runs, and what ended lately.
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { taskRow, type TaskRow } from "@gpve/domain/task/task-list.ts";
import { taskOfRecord } from "@gpve/domain/task/task-record.ts";
import type { TaskRecord } from "@gpve/domain/task/task-record.ts";
import type { Task } from "@gpve/domain/task/task.ts";
import type { Collection } from "@gpve/store/records/port.ts";

const ENDED_PER_NODE = 100;

export class RecentTasks {
  readonly #records: Collection<TaskRecord>;
  #from: unknown;
  #tasks: readonly Task[] = [];

  constructor(records: Collection<TaskRecord>) {
    this.#records = records;
  }

  /** Running ones first, then newest first. Computed again only when a record changed. */
  list(): readonly Task[] {
    const entries = this.#records.list();
    if (entries === this.#from) return this.#tasks;
    const tasks = entries.flatMap(({ value }) => taskOfRecord(value) ?? []);
    const running = tasks.filter((task) => task.endtime === undefined).toSorted(newestFirst);
    const perNode = new Map<string, number>();
    const ended = tasks
      .filter((task) => task.endtime !== undefined)
      .toSorted(newestFirst)
      .filter(({ node }) => {
        const count = (perNode.get(node) ?? 0) + 1;
        perNode.set(node, count);
        return count <= ENDED_PER_NODE;
      });
    this.#from = entries;
    this.#tasks = [...running, ...ended];
    return this.#tasks;
  }
}

/** Auditors of / see all tasks, others their own. Running ones have no end and status. */
export function clusterTasks(
  tasks: Pick<RecentTasks, "list">,
  { actor, access }: Pick<RequestContext, "actor" | "access">,
): readonly TaskRow[] {
  const rows = tasks.list().map(taskRow);
  if (access.has("/", ["Sys.Audit"])) return rows;
  return rows.filter(({ user }) => user === actor?.authid);
}

function newestFirst(a: Task, b: Task): number {
  return (b.endtime ?? b.starttime) - (a.endtime ?? a.starttime) || b.pid - a.pid;
}
