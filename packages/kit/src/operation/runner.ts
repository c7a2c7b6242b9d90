// Runs one operation to its end: steps forward, or what had begun backward.
//
//   queued ──> running ──step, step, ...──> done
//                 │ failure, cancel, crash
//                 └──> undoing ──undo, undo, ...──> failed | cancelled
//
// The journal is written before a step begins (together with the end of the one before) and after the last one.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "../clock.ts";
import { childSpan, queuedSpan } from "../telemetry/span.ts";
import { LeftAsItIs } from "./definition.ts";
import type { AnyStep, StepContext } from "./definition.ts";
import { Halted, pauseUnlessHalted, throwIfHalted } from "./halt.ts";
import type { LiveOperation } from "./live-operation.ts";
import type { CrashInjector, CrashPoint } from "./ports.ts";
import { exitStatusOf, lastLogLine } from "./record.ts";
import type { OperationRecord } from "./record.ts";
import type { Outcome } from "./states.ts";

export interface RunnerDeps {
  readonly clock: Clock;
  readonly crash: CrashInjector | undefined;
  readonly beforeEnd: (() => Promise<void>) | undefined;
  /** Aborts when nothing may be run or written any more. */
  readonly halt: AbortSignal;
  /** Between two steps: stop here in good order? */
  readonly isDraining: () => boolean;
  /** Journals the operation; tries again until it succeeds, throws Halted when it must not. */
  readonly persist: (operation: LiveOperation, change?: Partial<OperationRecord>) => Promise<void>;
  readonly letThrough: (operation: LiveOperation) => Promise<void>;
  readonly undoAttempts: number;
  readonly undoBackoffMs: number;
}

export function runOperation(operation: LiveOperation, deps: RunnerDeps): Promise<void> {
  const { type, traceparent, createdAt, id } = operation.record;
  const when = { traceparent, queuedAt: createdAt, startedAt: deps.clock.now() };
  return queuedSpan(`operation ${type}`, { "gpve.upid": id }, when, () => run(operation, deps));
}

async function run(operation: LiveOperation, deps: RunnerDeps): Promise<void> {
  const whole = new OperationRun(operation, deps);
  try {
    await whole.toEnd();
  } catch (error) {
    if (error instanceof Halted || deps.halt.aborted || operation.isFinishing) throw error;
    // A definition that broke its promises (a plan that changed its mind) must not leave a lock behind.
    await whole.giveUp(error);
  }
}

class OperationRun {
  readonly #operation: LiveOperation;
  readonly #deps: RunnerDeps;

  constructor(operation: LiveOperation, deps: RunnerDeps) {
    this.#operation = operation;
    this.#deps = deps;
  }

  async toEnd(): Promise<void> {
    const operation = this.#operation;
    if (operation.definition === undefined) {
      const error = `unknown operation type '${operation.record.type}': nothing could be undone`;
      operation.update({ error });
      await this.#finish("failed");
      return;
    }
    if (operation.record.state === "undoing") {
      await this.#undoAll();
      return;
    }
    if (operation.record.state === "queued") {
      operation.become("running", { startedAt: this.#deps.clock.now() });
      operation.emit("started");
    }
    operation.update({ suspended: false });
    const failure = await this.#forward();
    if (failure === undefined) {
      await this.#finish("done");
      return;
    }
    if (operation.record.cancelled === undefined) {
      operation.update({ error: messageOf(failure.error) });
      operation.write(messageOf(failure.error));
    }
    operation.become("undoing");
    await this.#undoAll();
  }

  async giveUp(error: unknown): Promise<void> {
    const operation = this.#operation;
    operation.update({ error: operation.record.error ?? messageOf(error) });
    for (const { name, state } of operation.record.steps)
      if (state === "started" || state === "done")
        operation.mark(name, { state: "undoFailed", undoError: messageOf(error) });
    if (operation.record.state === "queued") operation.become("running");
    await this.#finish("failed");
  }

  async #forward(): Promise<{ readonly error: unknown } | undefined> {
    const operation = this.#operation;
    let steps: readonly AnyStep[];
    try {
      steps = operation.steps;
    } catch (error) {
      return { error };
    }
    let isFirst = true;
    for (const step of steps) {
      if (operation.markOf(step.name)?.state === "done") continue;
      if (!isFirst) await this.#betweenSteps();
      isFirst = false;
      if (operation.cancel.signal.aborted) return { error: operation.cancel.signal.reason };
      operation.beginStep();
      operation.mark(step.name, { state: "started" });
      try {
        await this.#deps.persist(operation);
        operation.emit("step");
        await this.#hit("before-run", step);
        operation.cancel.signal.throwIfAborted();
        const stop = AbortSignal.any([operation.cancel.signal, this.#deps.halt]);
        await childSpan(`step ${step.name}`, {}, () => step.run(this.#context(stop)));
      } catch (error) {
        throwIfHalted(this.#deps);
        return { error };
      }
      throwIfHalted(this.#deps);
      await operation.log.flush();
      await this.#hit("after-run", step);
      operation.mark(step.name, { state: "done" });
    }
    return operation.cancel.signal.aborted ? { error: operation.cancel.signal.reason } : undefined;
  }

  async #betweenSteps(): Promise<void> {
    if (this.#deps.isDraining()) {
      this.#operation.update({ suspended: true });
      await this.#deps.persist(this.#operation);
      throw new Halted("stopped between two steps");
    }
    await this.#deps.letThrough(this.#operation);
  }

  async #undoAll(): Promise<void> {
    const operation = this.#operation;
    await this.#deps.persist(operation);
    const steps = operation.record.steps.length === 0 ? [] : operation.steps;
    const begun = steps.filter((step) => {
      const state = operation.markOf(step.name)?.state;
      return state === "started" || state === "done";
    });
    const known = new Set(steps.map((step) => step.name));
    for (const { name, state } of operation.record.steps)
      if (!known.has(name) && (state === "started" || state === "done"))
        operation.mark(name, { state: "undoFailed", undoError: "this version has no such step" });
    for (const step of begun.toReversed()) {
      if (step.undo === undefined) operation.mark(step.name, { state: "undone" });
      else await this.#undoStep(step);
    }
    await this.#finish(operation.record.cancelled === undefined ? "failed" : "cancelled");
  }

  async #undoStep(step: AnyStep): Promise<void> {
    const operation = this.#operation;
    for (;;) {
      try {
        await this.#hit("before-undo", step);
        await step.undo?.(this.#context(this.#deps.halt));
        await this.#hit("after-undo", step);
        operation.mark(step.name, { state: "undone" });
        await this.#deps.persist(operation);
        return;
      } catch (error) {
        throwIfHalted(this.#deps);
        if (error instanceof Halted) throw error;
        if (error instanceof LeftAsItIs) {
          operation.mark(step.name, { state: "undoFailed", undoError: error.message });
          operation.warn(error.message);
          const { error: reason } = operation.record;
          operation.update({ error: reason === undefined ? error.message : `${reason}; ${error.message}` });
          await this.#deps.persist(operation);
          return;
        }
        const undoAttempts = (operation.markOf(step.name)?.undoAttempts ?? 0) + 1;
        const state = undoAttempts >= this.#deps.undoAttempts ? "undoFailed" : "started";
        operation.mark(step.name, { state, undoAttempts, undoError: messageOf(error) });
        operation.write(`undo of '${step.name}' failed (attempt ${undoAttempts}): ${messageOf(error)}`);
        await this.#deps.persist(operation);
        // A lock that a person must clear is worse than a leftover that the task names.
        if (state === "undoFailed") return;
        await pauseUnlessHalted(this.#deps.undoBackoffMs * 2 ** (undoAttempts - 1), this.#deps);
      }
    }
  }

  async #finish(outcome: Outcome): Promise<void> {
    const operation = this.#operation;
    operation.isFinishing = true;
    const leftovers = operation.record.steps.filter((step) => step.state === "undoFailed");
    const exitStatus = exitStatusOf(operation.record, outcome);
    if (leftovers.length > 0)
      operation.write(`not undone, look after it by hand: ${leftovers.map((step) => step.name).join(", ")}`);
    if (outcome === "cancelled" && operation.record.cancelled !== undefined)
      operation.write(`${operation.record.cancelled.reason} (${operation.record.cancelled.by})`);
    await this.#deps.beforeEnd?.();
    await this.#hit("before-finish");
    const end = { exitStatus, endedAt: this.#deps.clock.now() };
    await this.#deps.persist(operation, { ...end, state: outcome });
    await this.#hit("after-finish");
    await operation.log.finish(lastLogLine(exitStatus, outcome));
    // Shown as ended only when journal and log both say so.
    operation.become(outcome, end);
  }

  #context(signal: AbortSignal): StepContext {
    const operation = this.#operation;
    const { record } = operation;
    return {
      args: record.args,
      state: operation.data,
      signal,
      id: record.id,
      resources: record.resources,
      actor: record.actor,
      traceparent: record.traceparent,
      clock: this.#deps.clock,
      log: (line) => operation.write(line),
      warn: (line) => operation.warn(line),
      progress: (fraction, text) => operation.progress(fraction, text),
      checkpoint: () => this.#deps.persist(operation),
    };
  }

  async #hit(phase: CrashPoint["phase"], step?: AnyStep): Promise<void> {
    const { id, type } = this.#operation.record;
    await this.#deps.crash?.hit({ id, type, phase, step: step?.name ?? "" });
  }
}
