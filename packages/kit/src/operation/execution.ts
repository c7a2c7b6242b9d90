// One claim on the journal: the queues and everything that runs under it. When the claim is lost, this object is
// finished and the engine makes another.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "../clock.ts";
import { lockOf } from "./definition.ts";
import type { OperationRegistry } from "./definition.ts";
import type { JournalSession } from "./journal.ts";
import { EndedOperation } from "./ended-operation.ts";
import { LiveOperation } from "./live-operation.ts";
import type { CrashInjector, OperationEvent, OperationLogger, TaskLogSink } from "./ports.ts";
import { lastLogLine } from "./record.ts";
import type { OperationRecord } from "./record.ts";
import { JournalWriter } from "./journal-writer.ts";
import { ResourceQueues } from "./resource-queues.ts";
import type { QueueEntry } from "./resource-queues.ts";
import { Halted } from "./halt.ts";
import { runOperation } from "./runner.ts";
import { isEnded } from "./states.ts";

export interface ExecutionDeps {
  readonly session: JournalSession;
  readonly registry: OperationRegistry;
  readonly clock: Clock;
  readonly logs: TaskLogSink;
  readonly logger: OperationLogger;
  readonly crash: CrashInjector | undefined;
  readonly beforeEnd: (() => Promise<void>) | undefined;
  readonly emit: (event: OperationEvent) => void;
  readonly concurrency: number;
  readonly undoAttempts: number;
  readonly undoBackoffMs: number;
}

const DEAF_STEP_MS = 2_000;
/** The log of what ended this shortly before a crash may lack its last line. */
const LOG_REPAIR_MS = 10_000;

export class Execution {
  /** In order of submission. */
  readonly operations = new Map<string, LiveOperation | EndedOperation>();
  readonly #deps: ExecutionDeps;
  readonly #queues: ResourceQueues;
  readonly #halt = new AbortController();
  readonly #running = new Map<string, Promise<void>>();
  /** Those among them that only wait for somebody outside. */
  readonly #idle = new Set<string>();
  readonly #writer: JournalWriter;
  #isDraining = false;
  #sequence = 0;

  constructor(deps: ExecutionDeps) {
    this.#deps = deps;
    this.#queues = new ResourceQueues(() => this.#pump());
    this.#writer = new JournalWriter({ ...deps, halt: this.#halt.signal });
    deps.session.lost.addEventListener("abort", () => this.#halt.abort(deps.session.lost.reason), {
      once: true,
    });
    if (deps.session.lost.aborted) this.#halt.abort(deps.session.lost.reason);
  }

  /** Aborted = nothing runs here any more. */
  get halted(): AbortSignal {
    return this.#halt.signal;
  }

  get counts(): { readonly waiting: number; readonly running: number } {
    return { waiting: this.#queues.waiting, running: this.#running.size };
  }

  nextSequence(): number {
    this.#sequence += 1;
    return this.#sequence;
  }

  /** Reads the journal and takes up what a former owner left. */
  async recover(): Promise<void> {
    const { records, lastSequence } = await this.#deps.session.load();
    this.#sequence = lastSequence;
    const newest = records.reduce((max, { createdAt, endedAt = 0 }) => Math.max(max, createdAt, endedAt), 0);
    for (const record of records) {
      if (isEnded(record.state)) {
        this.#keep(record);
        if ((record.endedAt ?? 0) >= newest - LOG_REPAIR_MS)
          await this.#deps.logs.open(record.id).finish(lastLogLine(record.exitStatus ?? "", record.state));
        continue;
      }
      const operation = this.#adopt(record);
      if (record.state === "queued" && operation.definition !== undefined) {
        this.#queues.add(entryOf(record));
      } else this.#takeUp(operation);
    }
    this.#pump();
  }

  /** Durable when it resolves. */
  async accept(record: OperationRecord): Promise<LiveOperation> {
    if (this.#halt.signal.aborted || this.#isDraining) throw unavailable();
    await this.#writer.add(record);
    const operation = this.#adopt(record);
    operation.emit("accepted");
    if (this.#halt.signal.aborted) return operation;
    this.#queues.add(entryOf(record));
    this.#pump();
    return operation;
  }

  /** Never queued: a waiting operation ends at once, a running one is told to stop and is undone. */
  async cancel(operation: LiveOperation | EndedOperation, by: string, reason: string): Promise<boolean> {
    const { record } = operation;
    if (
      operation instanceof EndedOperation ||
      isEnded(record.state) ||
      operation.isFinishing ||
      record.state === "undoing"
    )
      return false;
    if (record.cancelled !== undefined) return true;
    operation.update({ cancelled: { by, reason } });
    if (record.state === "queued" && this.#queues.drop(record.id)) {
      this.#start(operation, async () => {
        operation.isFinishing = true;
        const end = { exitStatus: "received interrupt", endedAt: this.#deps.clock.now() };
        await this.#writer.persist(operation, { ...end, state: "cancelled" });
        operation.write(`${reason} (${by})`);
        await operation.log.finish(lastLogLine(end.exitStatus, "cancelled"));
        operation.become("cancelled", end);
      });
      await this.#running.get(record.id);
      this.#pump();
      return true;
    }
    operation.cancel.abort(new AppError("operation.cancelled", reason));
    // Once the caller has its answer, a crash undoes the operation instead of resuming it.
    await this.#writer.persist(operation);
    return true;
  }

  /** What runs on these keys and stands in a synchronous method's way. */
  blocker(keys: readonly string[]): { readonly name: string; readonly isLocked: boolean } | undefined {
    for (const key of keys) {
      const holder = this.#queues.holderOf(key);
      const operation = holder === undefined ? undefined : this.#live(holder.id);
      if (operation === undefined) continue;
      const lock = lockOf(operation.definition, operation.record.args);
      return { name: lock ?? operation.record.type, isLocked: lock !== undefined };
    }
    return undefined;
  }

  /** Unfinished operations of these types on any of these keys. */
  victims(types: readonly string[], keys: readonly string[]): readonly LiveOperation[] {
    return [...this.operations.values()].filter(
      (operation): operation is LiveOperation =>
        operation instanceof LiveOperation &&
        types.includes(operation.record.type) &&
        !isEnded(operation.record.state) &&
        operation.record.resources.some((key) => keys.includes(key)),
    );
  }

  request(keys: readonly string[]): ReturnType<ResourceQueues["request"]> {
    return this.#queues.request(keys);
  }

  /** Stops between steps; what is still inside a step after `graceMs` is cut off and recovered at the next start. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    // A step that does not listen to its signal cannot keep the process from ending.
    const { promise: enough, resolve } = Promise.withResolvers<void>();
    const cancelTimers = [
      this.#deps.clock.after(graceMs, () => this.halt("the process is stopping")),
      this.#deps.clock.after(graceMs + DEAF_STEP_MS, resolve),
    ];
    await Promise.race([this.settled(), enough]);
    for (const cancelTimer of cancelTimers) cancelTimer();
    this.halt("the process is stopping");
  }

  halt(reason: string): void {
    this.#halt.abort(new Halted(reason));
  }

  /** Resolves when nothing runs any more. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running.values());
  }

  async forget(records: readonly OperationRecord[]): Promise<void> {
    if (records.length === 0) return;
    // Logs first: a crash in between leaves a record, which leads here again, never a log that nobody knows.
    for (const record of records) await this.#deps.logs.remove(record.id);
    await this.#deps.session.remove(records.map((record) => record.sequence));
    for (const record of records) {
      this.operations.delete(record.id);
      this.#deps.emit({ kind: "removed", operation: record });
    }
  }

  #adopt(record: OperationRecord): LiveOperation {
    const { registry, logs, emit } = this.#deps;
    const operation = new LiveOperation({
      record,
      definition: registry.get(record.type),
      log: logs.open(record.id),
      emit,
    });
    this.operations.set(record.id, operation);
    this.#sequence = Math.max(this.#sequence, record.sequence);
    return operation;
  }

  #keep(record: OperationRecord): void {
    this.operations.set(record.id, new EndedOperation({ progressText: undefined, ...record, progress: 1 }));
    this.#sequence = Math.max(this.#sequence, record.sequence);
  }

  #live(id: string): LiveOperation | undefined {
    const operation = this.operations.get(id);
    return operation instanceof LiveOperation ? operation : undefined;
  }

  /** It was running when its owner died. */
  #takeUp(operation: LiveOperation): void {
    const { record, definition } = operation;
    if (record.state === "running" && definition !== undefined) {
      const mayResume = record.suspended === true || definition.onCrash === "resume";
      operation.write(mayResume ? "resumed after a restart" : "cut off by a restart, undoing");
      if (record.cancelled !== undefined || !mayResume)
        operation.become("undoing", { error: "interrupted by a restart, all changes were undone" });
    }
    const entry = entryOf(record);
    this.#queues.hold(entry);
    this.#start(operation, () => runOperation(operation, this.#runnerDeps(entry)), entry);
  }

  #pump(): void {
    while (
      this.#running.size - this.#idle.size < this.#deps.concurrency &&
      !this.#isDraining &&
      !this.#halt.signal.aborted
    ) {
      const entry = this.#queues.take();
      if (entry === undefined) break;
      const operation = this.#live(entry.id);
      if (operation === undefined) continue;
      this.#start(operation, () => runOperation(operation, this.#runnerDeps(entry)), entry);
    }
  }

  #start(operation: LiveOperation, work: () => Promise<void>, entry?: QueueEntry): void {
    const { id } = operation.record;
    const run = work()
      .catch((error: unknown) => {
        if (error instanceof Halted || this.#halt.signal.aborted) return;
        this.#deps.logger.error({ err: messageOf(error), operation: id }, "an operation broke its runner");
      })
      .finally(() => {
        this.#running.delete(id);
        this.#idle.delete(id);
        if (isEnded(operation.record.state)) this.#ended(operation);
        // After a halt the keys stay taken: what is on them is for the next owner to decide.
        if (entry !== undefined && !this.#halt.signal.aborted) this.#queues.release(entry);
      });
    this.#running.set(id, run);
    if (operation.definition?.idle === true) this.#idle.add(id);
  }

  #ended(operation: LiveOperation): void {
    this.#keep(operation.view());
    operation.emit("ended");
  }

  #runnerDeps(entry: QueueEntry): Parameters<typeof runOperation>[1] {
    return {
      clock: this.#deps.clock,
      crash: this.#deps.crash,
      beforeEnd: this.#deps.beforeEnd,
      halt: this.#halt.signal,
      isDraining: () => this.#isDraining,
      persist: (operation, change) => this.#writer.persist(operation, change),
      letThrough: (operation) =>
        operation.definition?.exclusive === true ? Promise.resolve() : this.#queues.letThrough(entry),
      undoAttempts: this.#deps.undoAttempts,
      undoBackoffMs: this.#deps.undoBackoffMs,
    };
  }
}

export function unavailable(): AppError {
  return new AppError(
    "store.unavailable",
    "operations are not accepted right now: this process does not own the journal; try again",
  );
}

function entryOf(record: OperationRecord): QueueEntry {
  const { id, order, sequence, resources, shared = [] } = record;
  return { id, order, sequence, keys: resources, shared };
}
