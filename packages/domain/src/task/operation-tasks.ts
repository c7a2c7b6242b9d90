// Operations seen as tasks. An operation's id is its UPID.
import type { TaskDirectory } from "./ports.ts";
import { EXIT_UNEXPECTED, taskFromUpid } from "./task.ts";
import type { Task } from "./task.ts";
import { formatUpid } from "./upid.ts";

/** What is needed of an operation; the engine's records have it. */
export interface OperationFacts {
  readonly id: string;
  /** Milliseconds; absent while it runs or waits. */
  readonly endedAt?: number;
  readonly exitStatus?: string;
}

/** What is needed of an operation engine. */
export interface OperationSource {
  get(id: string): OperationFacts | undefined;
  list(): Iterable<OperationFacts>;
  cancel(id: string, by: string): Promise<boolean>;
  wait(id: string, signal?: AbortSignal): Promise<unknown>;
}

/**
 * The agent and the server of one node number their tasks apart, so that a UPID names one task: from here on they
 * are the server's.
 */
export const SERVER_TASKS_FROM = 0x4000_0000;

export function isServerTask(task: Pick<Task, "pid">): boolean {
  return task.pid > SERVER_TASKS_FROM;
}

/** How long a stop waits for the end, as PVE does before it kills. */
const STOP_WAIT_MS = 5_000;

export function taskOfOperation(operation: OperationFacts): Task | undefined {
  if (operation.endedAt === undefined) return taskFromUpid(operation.id);
  return taskFromUpid(operation.id, {
    endtime: Math.floor(operation.endedAt / 1_000),
    exitstatus: operation.exitStatus ?? EXIT_UNEXPECTED,
  });
}

/** The part of a clock that is needed here. */
export interface Sleeper {
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export function operationTasks(source: OperationSource, clock: Sleeper): TaskDirectory {
  // An ended operation never changes: it is looked at once.
  const ended = new WeakMap<OperationFacts, Task>();
  const taskOf = (operation: OperationFacts): Task | undefined => {
    const known = ended.get(operation);
    if (known !== undefined) return known;
    const task = taskOfOperation(operation);
    if (task?.endtime !== undefined) ended.set(operation, task);
    return task;
  };
  return {
    get: (upid) => {
      const operation = source.get(upid);
      return operation === undefined ? undefined : taskOf(operation);
    },
    *list() {
      for (const operation of source.list()) {
        const task = taskOf(operation);
        if (task !== undefined) yield task;
      }
    },
    async stop(upid, by) {
      const enough = new AbortController();
      const given = (): undefined => undefined;
      const ended = source
        .cancel(upid, by)
        .then((isEnding) => (isEnding ? source.wait(upid, enough.signal).then(given, given) : undefined));
      await Promise.race([ended, clock.sleep(STOP_WAIT_MS, enough.signal).then(given, given)]);
      enough.abort();
    },
  };
}

/** Several engines of one node, as one. */
export function joinDirectories(directories: readonly TaskDirectory[]): TaskDirectory {
  const holder = (upid: string): TaskDirectory | undefined =>
    directories.find((directory) => directory.get(upid) !== undefined);
  return {
    get: (upid) => holder(upid)?.get(upid),
    *list() {
      for (const directory of directories) yield* directory.list();
    },
    stop: async (upid, by) => holder(upid)?.stop(upid, by),
  };
}

/** Makes the UPIDs of one node. `pstart`: the host's uptime in hundredths of a second, as PVE has it. */
export function upidNamer(node: string, pstart: () => number) {
  return (facts: {
    readonly sequence: number;
    readonly type: string;
    readonly subject: string;
    readonly actor: string;
    readonly createdAt: number;
  }): string =>
    formatUpid({
      node,
      pid: facts.sequence,
      pstart: Math.floor(pstart()),
      starttime: Math.floor(facts.createdAt / 1_000),
      type: facts.type,
      id: facts.subject,
      user: facts.actor,
    });
}
