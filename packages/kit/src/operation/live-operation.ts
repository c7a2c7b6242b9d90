import { AppError } from "@gpve/contracts/errors.ts";
import { stepsOf } from "./definition.ts";
import type { AnyDefinition, AnyStep } from "./definition.ts";
import type { OperationEvent, TaskLog } from "./ports.ts";
import { markStep } from "./record.ts";
import type { OperationRecord, OperationView, StepMark } from "./record.ts";
import { isEnded, mayBecome } from "./states.ts";
import type { OperationState } from "./states.ts";

/** One operation in memory: its newest record, its log, its progress, and the switch that cancels it. */
export class LiveOperation {
  readonly definition: AnyDefinition | undefined;
  readonly cancel = new AbortController();
  /** What steps change; the record gets a copy with every write. */
  readonly data: Record<string, unknown>;
  readonly log: TaskLog;
  /** Its outcome is settled: too late to cancel. */
  isFinishing = false;
  /** Its end is on its way to the journal: nothing else may be written after it. */
  isSealed = false;
  /** The steps' state that the journal has. */
  writtenData: Readonly<Record<string, unknown>>;
  /** The end of the last write to the journal. */
  writes: Promise<void> = Promise.resolve();
  readonly #emit: (event: OperationEvent) => void;
  #record: OperationRecord;
  #stepFraction = 0;
  #progressText: string | undefined;
  #steps: readonly AnyStep[] | undefined;
  #lastView: OperationView | undefined;

  constructor(options: {
    readonly record: OperationRecord;
    readonly definition: AnyDefinition | undefined;
    readonly log: TaskLog;
    readonly emit: (event: OperationEvent) => void;
  }) {
    this.#record = options.record;
    this.definition = options.definition;
    this.log = options.log;
    this.#emit = options.emit;
    this.data = structuredClone(options.record.data);
    this.writtenData = options.record.data;
    if (options.record.cancelled !== undefined && !isEnded(options.record.state)) this.cancel.abort();
  }

  get record(): OperationRecord {
    return this.#record;
  }

  get steps(): readonly AnyStep[] {
    this.#steps ??= this.definition === undefined ? [] : stepsOf(this.definition, this.#record.args);
    return this.#steps;
  }

  /** The record with the steps' state of this moment. */
  snapshot(change: Partial<OperationRecord> = {}): OperationRecord {
    return { ...this.#record, data: jsonCopy(this.data), ...change };
  }

  /** Back to the steps' state that is in the journal. */
  restoreData(): void {
    for (const key of Object.keys(this.data)) delete this.data[key];
    Object.assign(this.data, structuredClone(this.writtenData));
  }

  update(change: Partial<OperationRecord>): void {
    this.#record = { ...this.#record, ...change };
  }

  become(state: OperationState, change: Partial<OperationRecord> = {}): void {
    if (!mayBecome(this.#record.state, state))
      throw new AppError("internal.error", `an operation cannot go from ${this.#record.state} to ${state}`);
    this.update({ ...change, state });
  }

  mark(step: string, change: Omit<StepMark, "name">): void {
    this.#record = markStep(this.#record, step, change);
  }

  markOf(step: string): StepMark | undefined {
    return this.#record.steps.find((mark) => mark.name === step);
  }

  write(line: string): void {
    for (const part of line.split(/\r?\n/)) {
      this.log.append(part);
      this.#emit({ kind: "log", operation: this.view(), line: part });
    }
  }

  warn(line: string): void {
    this.update({ warnings: this.#record.warnings + 1 });
    this.write(`WARN: ${line}`);
  }

  progress(fraction: number, text?: string): void {
    this.#stepFraction = Math.min(1, Math.max(0, Number.isFinite(fraction) ? fraction : 0));
    this.#progressText = text ?? this.#progressText;
    this.emit("progress");
  }

  beginStep(): void {
    this.#stepFraction = 0;
    this.#progressText = undefined;
  }

  emit(kind: "accepted" | "started" | "step" | "progress" | "ended"): void {
    this.#emit({ kind, operation: this.view() });
  }

  /** The same object each time once it has ended: lists of thousands are cheap, and readers may cache by it. */
  view(): OperationView {
    if (this.#lastView !== undefined) return this.#lastView;
    const view = { ...this.#record, progress: this.#overall(), progressText: this.#progressText };
    if (isEnded(this.#record.state)) this.#lastView = view;
    return view;
  }

  #overall(): number {
    if (isEnded(this.#record.state)) return 1;
    // Steps are planned by the runner; asking for them here could throw where nobody expects it.
    const steps = this.#steps ?? [];
    const weights = steps.map((step) => step.weight ?? 1);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const reached = steps.reduce((sum, step, at) => {
      const mark = this.markOf(step.name);
      const share = mark?.state === "done" ? 1 : mark?.state === "started" ? this.#stepFraction : 0;
      return sum + share * (weights[at] ?? 0);
    }, 0);
    return total === 0 ? 0 : reached / total;
  }
}

function jsonCopy(data: Record<string, unknown>): Record<string, unknown> {
  return JSON.parse(JSON.stringify(data)) as Record<string, unknown>;
}
