// Durable operations: submit, wait, cancel, observe. See docs/how-to/write-an-operation.md.
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "../background.ts";
import type { Clock } from "../clock.ts";
import { OperationRegistry } from "./definition.ts";
import type { AnyDefinition, OperationDefinition } from "./definition.ts";
import { Execution, unavailable } from "./execution.ts";
import { traceparent as activeTraceparent } from "../telemetry/traceparent.ts";
import type { Journal, JournalSession } from "./journal.ts";
import type {
  CrashInjector,
  OperationEvent,
  OperationLogger,
  OperationNameFacts,
  TaskLogSink,
} from "./ports.ts";
import { outlived } from "./record.ts";
import type { OperationRecord, OperationView } from "./record.ts";
import { isEnded } from "./states.ts";
import { RequestIds } from "./request-ids.ts";
import { Waiters } from "./waiters.ts";

export interface SubmitRequest {
  readonly type: string;
  /** Keys of what it works on ("vm/100"); the operation waits until it has them all. */
  readonly resources: readonly string[];
  /** Those among them that it only reads: others that only read them run at the same time. */
  readonly shared?: readonly string[];
  /** JSON. Never secrets: the journal and the API show them. */
  readonly args?: unknown;
  /** "joe@pve" or "joe@pve!ci". */
  readonly actor: string;
  /** The client's own id: the same id of the same actor gives the same operation. */
  readonly requestId?: string;
  /** The id field of the UPID: a VMID, a storage. */
  readonly subject?: string;
  readonly traceparent?: string;
}

export interface Submitted {
  readonly operation: OperationView;
  readonly upid: string;
  /** It had been submitted before with this request id. */
  readonly isRepeated: boolean;
}

export interface EngineOptions {
  readonly journal: Journal;
  /** Who this process is to the journal; the same after a restart. */
  readonly owner: string;
  readonly clock: Clock;
  readonly logs: TaskLogSink;
  readonly logger: OperationLogger;
  /** Makes the UPID. */
  readonly nameOf: (facts: OperationNameFacts) => string;
  readonly crash?: CrashInjector;
  /** Awaited before an operation is shown as ended: whoever sees its end must find its effect. Bounded; never rejects. */
  readonly beforeEnd?: () => Promise<void>;
  /** Operations running at the same time; default 16. */
  readonly concurrency?: number;
  /** Tries of one undo before it is given up and reported; default 5, 1 s apart and doubling. */
  readonly undoAttempts?: number;
  readonly undoBackoffMs?: number;
  /** Ended operations are kept this long, and at most so many; default 30 days, 5000. */
  readonly keepMs?: number;
  readonly keepCount?: number;
}

export interface ResourceOptions {
  /** Default 10 s. */
  readonly waitMs?: number;
  /** How PVE calls it in "VM is locked (clone)"; default VM. */
  readonly noun?: "VM" | "CT";
  /** The file PVE would lock. Who waited in vain is told of it in PVE's words, which clients know and try again on. */
  readonly lockFile?: string;
  readonly signal?: AbortSignal;
}

const CLAIM_WAIT_MS = 5_000;
const KEEP_COUNT = 5_000;
const PRUNE_EVERY_MS = 600_000;
/** Busy users make thousands between two rounds: so many times too many are not waited for. */
const PRUNE_ABOVE = 1.1;

export class OperationEngine {
  readonly #options: EngineOptions;
  readonly #registry = new OperationRegistry();
  readonly #requests = new RequestIds();
  readonly #waiters = new Waiters();
  readonly #observers = new Set<(event: OperationEvent) => void>();
  readonly #stop = new AbortController();
  #execution: Execution | undefined;
  #session: JournalSession | undefined;
  #ready = Promise.withResolvers<void>();
  #loop: Promise<void> | undefined;
  #prunedAt = 0;
  #isPruning = false;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  /** Before `start`: recovery needs every definition. */
  register<Args, State extends object>(definition: OperationDefinition<Args, State>): void {
    this.#registry.register(definition);
  }

  /** Claims the journal, recovers, and runs what waits. Resolves after recovery has begun. */
  async start(): Promise<void> {
    if (this.#loop !== undefined) return;
    const first = await this.#claim();
    this.#loop = this.#keep(first);
  }

  /** Stops between steps, cuts off what takes longer than `graceMs`, and gives the journal up. */
  async stop(graceMs = 5_000): Promise<void> {
    this.#stop.abort();
    await this.#execution?.drain(graceMs);
    await this.#loop;
    await this.#session?.release();
    await this.#options.logs.close();
  }

  async submit(request: SubmitRequest): Promise<Submitted> {
    const definition = this.#registry.get(request.type);
    if (definition === undefined)
      throw new AppError("feature.unsupported", `unknown operation type '${request.type}'`);
    const args = request.args === undefined ? {} : (JSON.parse(JSON.stringify(request.args)) as unknown);
    const execution = await this.#owning();
    const known = this.#requests.find({ ...request, args });
    if (known !== undefined) {
      const upid = await known;
      return { operation: this.#require(upid), upid, isRepeated: true };
    }
    const accepted = this.#accept(execution, { ...request, args }, definition);
    this.#requests.pending({ ...request, args }, accepted);
    const operation = await accepted;
    return { operation, upid: operation.id, isRepeated: false };
  }

  /** Resolves with the ended operation. */
  wait(id: string, signal?: AbortSignal): Promise<OperationView> {
    const now = this.#require(id);
    return isEnded(now.state) ? Promise.resolve(now) : this.#waiters.wait(id, signal);
  }

  /** false = it had already ended or is being undone. */
  async cancel(id: string, by: string, reason = "stopped by user"): Promise<boolean> {
    const execution = await this.#owning();
    const operation = execution.operations.get(id);
    if (operation === undefined) throw unknown(id);
    return execution.cancel(operation, by, reason);
  }

  get(id: string): OperationView | undefined {
    return this.#execution?.operations.get(id)?.view();
  }

  /** In order of submission. */
  *list(): IterableIterator<OperationView> {
    for (const operation of this.#execution?.operations.values() ?? []) yield operation.view();
  }

  /** Called in order, synchronously. Returns the unsubscribe. */
  observe(listener: (event: OperationEvent) => void): () => void {
    this.#observers.add(listener);
    return () => this.#observers.delete(listener);
  }

  /**
   * Runs a synchronous method on a resource: waits for the running step, at most `waitMs`, then fails with PVE's
   * `VM is locked (<lock>)`; at once when an operation with a PVE lock runs. Goes before waiting operations. `work`
   * must not wait for an operation on the same resource.
   */
  async withResource<T>(
    keys: string | readonly string[],
    options: ResourceOptions,
    work: () => Promise<T> | T,
  ): Promise<T> {
    const wanted = typeof keys === "string" ? [keys] : keys;
    const execution = await this.#owning();
    const noun = options.noun ?? "VM";
    const blocker = execution.blocker(wanted);
    if (blocker?.isLocked === true) throw locked(noun, blocker.name);
    const { granted, giveUp } = execution.request(wanted);
    const release = await this.#patiently(granted, options, () => {
      giveUp();
      const now = execution.blocker(wanted) ?? blocker;
      const { lockFile } = options;
      return now?.isLocked === true || lockFile === undefined
        ? locked(noun, now?.name ?? "busy")
        : lockTimedOut(lockFile, now?.name);
    });
    try {
      return await work();
    } finally {
      release();
    }
  }

  counts(): { readonly waiting: number; readonly running: number } {
    return this.#execution?.counts ?? { waiting: 0, running: 0 };
  }

  async #accept(
    execution: Execution,
    request: SubmitRequest & { readonly args: unknown },
    definition: AnyDefinition,
  ): Promise<OperationView> {
    const { type, resources, shared, args, actor, requestId, subject = "" } = request;
    const { taskType = type, overtakes = [] } = definition;
    const traceparent = activeTraceparent() ?? request.traceparent;
    const sequence = execution.nextSequence();
    const createdAt = this.#options.clock.now();
    const victims = overtakes.length === 0 ? [] : execution.victims(overtakes, resources);
    const record: OperationRecord = {
      id: this.#options.nameOf({ sequence, type: taskType, subject, actor, createdAt }),
      sequence,
      order: Math.min(sequence, ...victims.map((victim) => victim.record.order)),
      type,
      resources: [...new Set(resources)].toSorted(),
      ...given({ shared }),
      args,
      actor,
      ...given({ requestId, traceparent }),
      state: "queued",
      createdAt,
      steps: [],
      data: { ...definition.initialState?.(args) },
      warnings: 0,
    };
    const operation = await execution.accept(record);
    for (const victim of victims) await execution.cancel(victim, actor, `overtaken by ${type}`);
    return operation.view();
  }

  async #patiently(
    granted: Promise<() => void>,
    options: ResourceOptions,
    tooLate: () => AppError,
  ): Promise<() => void> {
    const { promise, reject } = Promise.withResolvers<never>();
    const onAbort = (): void => reject(tooLate());
    const cancelTimer = this.#options.clock.after(options.waitMs ?? 10_000, onAbort);
    options.signal?.addEventListener("abort", onAbort, { once: true });
    if (options.signal?.aborted === true) onAbort();
    try {
      return await Promise.race([granted, promise]);
    } finally {
      cancelTimer();
      options.signal?.removeEventListener("abort", onAbort);
    }
  }

  async #claim(): Promise<Execution> {
    const { journal, owner, concurrency = 16, undoAttempts = 5, undoBackoffMs = 1_000 } = this.#options;
    const session = await journal.claim(owner, this.#stop.signal);
    const { clock, logs, logger, crash, beforeEnd } = this.#options;
    const execution = new Execution({
      session,
      registry: this.#registry,
      clock,
      logs,
      logger,
      crash,
      beforeEnd,
      emit: (event) => this.#emit(event),
      concurrency,
      undoAttempts,
      undoBackoffMs,
    });
    try {
      await execution.recover();
    } catch (error) {
      execution.halt("the journal could not be read");
      await execution.settled();
      await session.release();
      throw error;
    }
    const before = this.#execution;
    this.#session = session;
    this.#execution = execution;
    this.#requests.load([...execution.operations.values()].map(({ record }) => record));
    this.#tellMissed(before, execution);
    await this.#prune(execution);
    this.#ready.resolve();
    return execution;
  }

  /** What ended under another owner while the journal was not ours. */
  #tellMissed(before: Execution | undefined, now: Execution): void {
    for (const { record } of before?.operations.values() ?? []) {
      const operation = now.operations.get(record.id);
      if (operation !== undefined && !isEnded(record.state) && isEnded(operation.record.state))
        this.#emit({ kind: "ended", operation: operation.view() });
    }
  }

  /** Takes the journal again whenever it was lost. */
  async #keep(first: Execution): Promise<void> {
    let execution = first;
    for (;;) {
      await aborted(execution.halted);
      if (this.#stop.signal.aborted) return;
      // What was cut off must have let go before it may be taken up again.
      await execution.settled();
      this.#ready = Promise.withResolvers<void>();
      this.#options.logger.warn({}, "the claim on the operation journal was lost; claiming it again");
      try {
        execution = await this.#claim();
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#options.logger.error({ err: messageOf(error) }, "the operation journal cannot be claimed");
        await this.#options.clock.sleep(1_000, this.#stop.signal).catch((reason: unknown) => {
          ignore(reason, "the next round sees the stop");
        });
      }
    }
  }

  async #owning(): Promise<Execution> {
    const isUsable = (): boolean => this.#execution !== undefined && !this.#execution.halted.aborted;
    if (!isUsable()) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const cancelTimer = this.#options.clock.after(CLAIM_WAIT_MS, resolve);
      await Promise.race([this.#ready.promise, promise]);
      cancelTimer();
    }
    if (this.#execution === undefined || !isUsable() || this.#stop.signal.aborted) throw unavailable();
    return this.#execution;
  }

  #require(id: string): OperationView {
    const operation = this.get(id);
    if (operation === undefined) throw unknown(id);
    return operation;
  }

  #emit(event: OperationEvent): void {
    if (event.kind === "ended") this.#waiters.ended(event.operation);
    for (const observer of this.#observers) {
      try {
        observer(event);
      } catch (error) {
        this.#options.logger.error({ err: messageOf(error) }, "an observer of operations failed");
      }
    }
    if (event.kind === "removed") this.#requests.forget(event.operation);
    if (event.kind !== "ended" || this.#execution === undefined) return;
    const { clock, keepCount = KEEP_COUNT } = this.#options;
    const isFull = this.#execution.operations.size > keepCount * PRUNE_ABOVE;
    if (this.#isPruning || (!isFull && clock.now() - this.#prunedAt < PRUNE_EVERY_MS)) return;
    void this.#prune(this.#execution);
  }

  async #prune(execution: Execution): Promise<void> {
    const { keepMs = 30 * 86_400_000, keepCount = KEEP_COUNT, clock, logger } = this.#options;
    this.#prunedAt = clock.now();
    this.#isPruning = true;
    const records = [...execution.operations.values()].map(({ record }) => record);
    try {
      await execution.forget(outlived(records, { keepCount, endedBefore: clock.now() - keepMs }));
    } catch (error) {
      logger.warn(
        { err: messageOf(error) },
        "old operations could not be removed; the next round tries again",
      );
    } finally {
      this.#isPruning = false;
    }
  }
}

function locked(noun: string, lock: string): AppError {
  return new AppError("resource.busy", `${noun} is locked (${lock})`, { pveStatus: 500, data: { lock } });
}

function lockTimedOut(lockFile: string, holder?: string): AppError {
  return new AppError("resource.busy", `can't lock file '${lockFile}' - got timeout`, {
    pveStatus: 500,
    data: { holder },
  });
}

function unknown(id: string): AppError {
  return new AppError("object.not_found", `no such operation '${id}'`, { data: { id } });
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
