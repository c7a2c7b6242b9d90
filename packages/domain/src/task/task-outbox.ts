// Carries news of tasks to the cluster and tries until it succeeds: a store that is away never holds up the work.
import { taskOfOperation } from "./operation-tasks.ts";
import type { OperationFacts, Sleeper } from "./operation-tasks.ts";
import type { TaskPublisher } from "./ports.ts";
import { taskFromUpid } from "./task.ts";
import type { Task } from "./task.ts";

export interface TaskOutboxDeps {
  readonly publisher: TaskPublisher;
  readonly clock: Sleeper;
  readonly onFailure: (error: unknown, waiting: number) => void;
}

/** The part of an engine's events that matters here. */
export interface OperationNews {
  readonly kind: string;
  readonly operation: OperationFacts;
}

const BATCH = 50;
const MAX_PAUSE_MS = 30_000;

export class TaskOutbox {
  readonly #deps: TaskOutboxDeps;
  readonly #pending = new Map<string, Task | undefined>();
  readonly #stop = new AbortController();
  #sending: Promise<void> | undefined;

  constructor(deps: TaskOutboxDeps) {
    this.#deps = deps;
  }

  /** Give this to the engine's `observe`. */
  readonly hear = (news: OperationNews): void => {
    if (news.kind === "accepted" || news.kind === "ended") this.put(news.operation);
    if (news.kind === "removed") this.#change(news.operation.id, undefined);
  };

  put(operation: OperationFacts): void {
    const task = taskOfOperation(operation);
    if (task !== undefined) this.#change(task.upid, task);
  }

  /**
   * After a start: tells what the cluster does not know yet and takes back what is known no more. `isOurs` says
   * which of the node's published tasks this process answers for. Tries until it succeeds.
   */
  async reconcile(
    node: string,
    operations: () => Iterable<OperationFacts>,
    isOurs: (task: Task) => boolean,
  ): Promise<void> {
    const published = await this.#patiently(() => this.#deps.publisher.published(node));
    if (published === undefined) return;
    const exits = new Map(published.map(({ upid, exitstatus }) => [upid, exitstatus]));
    const known = new Set<string>();
    for (const operation of operations()) {
      known.add(operation.id);
      if (!exits.has(operation.id) || exits.get(operation.id) !== operation.exitStatus) this.put(operation);
    }
    for (const { upid } of published) {
      const task = taskFromUpid(upid);
      if (task !== undefined && isOurs(task) && !known.has(upid)) this.#change(upid, undefined);
    }
  }

  /** Resolves when nothing waits to be told. */
  async settled(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending;
  }

  /** What is still waiting is told at the next start. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.settled();
  }

  #change(upid: string, task: Task | undefined): void {
    this.#pending.set(upid, task);
    this.#sending ??= this.#send().finally(() => {
      this.#sending = undefined;
    });
  }

  async #send(): Promise<void> {
    while (this.#pending.size > 0 && !this.#stop.signal.aborted) {
      await this.#patiently(async () => {
        const batch = [...this.#pending].slice(0, BATCH);
        await this.#deps.publisher.apply(batch.map(([upid, task]) => ({ upid, task })));
        for (const [upid, task] of batch) if (this.#pending.get(upid) === task) this.#pending.delete(upid);
      });
    }
  }

  /** Tries until it succeeds; undefined when closed first. */
  async #patiently<T>(attempt: () => Promise<T>): Promise<T | undefined> {
    for (let failures = 0; !this.#stop.signal.aborted;) {
      try {
        return await attempt();
      } catch (error) {
        failures += 1;
        if (failures === 1) this.#deps.onFailure(error, this.#pending.size);
        const pause = Math.min(MAX_PAUSE_MS, 250 * 2 ** failures);
        await this.#deps.clock.sleep(pause, this.#stop.signal).catch(() => {
          // The loop sees the stop.
        });
      }
    }
    return undefined;
  }
}
