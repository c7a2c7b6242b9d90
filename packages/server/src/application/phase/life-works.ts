// For each VM the work that its life depends on: what goes on, and what ended last. From the tasks of all nodes.
import { lifeWork, type LifeWork } from "@gpve/domain/phase/vm-phase-of.ts";
import { taskOfRecord, type TaskRecord } from "@gpve/domain/task/task-record.ts";
import { statusTypeOf, type Task } from "@gpve/domain/task/task.ts";
import type { Collection } from "@gpve/store/records/port.ts";

export interface VmWorks {
  readonly work: LifeWork | undefined;
  readonly last: (LifeWork & { readonly task: Task }) | undefined;
  readonly isPaused: boolean;
}

interface Works {
  readonly open: Map<string, Task>;
  last: Task | undefined;
  paused: Task | undefined;
}

export class LifeWorks {
  readonly #byVm = new Map<string, Works>();
  readonly #listeners = new Set<(vmid: string) => void>();
  readonly #stop: () => void;

  constructor(tasks: Pick<Collection<TaskRecord>, "list" | "onChange">) {
    for (const { value } of tasks.list()) this.#take(taskOfRecord(value));
    this.#stop = tasks.onChange((_id, entry, before) => {
      const task = entry === undefined ? undefined : taskOfRecord(entry.value);
      if (task === undefined || lifeWork[task.type] === undefined) return;
      // Short work may be told of when it has ended already; it was under way all the same.
      if (before === undefined && task.endtime !== undefined) {
        this.#take({ ...task, endtime: undefined, exitstatus: undefined } as unknown as Task);
        this.#tell(task.id);
      }
      this.#take(task);
      this.#tell(task.id);
    });
  }

  close(): void {
    this.#stop();
    this.#listeners.clear();
  }

  of(vmid: string): VmWorks {
    const works = this.#byVm.get(vmid);
    const newest = [...(works?.open.values() ?? [])].toSorted((a, b) => b.starttime - a.starttime)[0];
    const { last, paused } = works ?? {};
    return {
      work: newest === undefined ? undefined : { type: newest.type },
      last:
        last === undefined
          ? undefined
          : { type: last.type, endedAt: (last.endtime ?? 0) * 1000, ok: isOk(last), task: last },
      isPaused: paused !== undefined && lifeWork[paused.type]?.pauses === true,
    };
  }

  /** Another guest may have its VMID later. */
  forget(vmid: string): void {
    this.#byVm.delete(vmid);
  }

  onChange(listener: (vmid: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #take(task: Task | undefined): void {
    if (task === undefined || lifeWork[task.type] === undefined) return;
    let works = this.#byVm.get(task.id);
    if (works === undefined) {
      works = { open: new Map(), last: undefined, paused: undefined };
      this.#byVm.set(task.id, works);
    }
    if (task.endtime === undefined) {
      works.open.set(task.upid, task);
      return;
    }
    works.open.delete(task.upid);
    if (isNewer(task, works.last)) works.last = task;
    if (lifeWork[task.type]?.pauses !== undefined && isOk(task) && isNewer(task, works.paused))
      works.paused = task;
  }

  #tell(vmid: string): void {
    for (const listener of this.#listeners) listener(vmid);
  }
}

function isOk({ exitstatus }: Task): boolean {
  const type = statusTypeOf(exitstatus);
  return type === "ok" || type === "warning";
}

function isNewer(task: Task, than: Task | undefined): boolean {
  if (than === undefined) return true;
  return (task.endtime ?? 0) - (than.endtime ?? 0) >= 0;
}
