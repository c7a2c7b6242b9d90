// What an operation is made of. Steps must be idempotent: after a crash a step may run, or be undone, again.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "../clock.ts";

export interface StepContext<Args = unknown, State extends object = Record<string, unknown>> {
  readonly args: Args;
  /** JSON. Change it freely; it is journaled with every step's end and by `checkpoint`. */
  readonly state: State;
  /** Aborts on cancel, on overtaking and when this process must stop. In an undo only the latter. */
  readonly signal: AbortSignal;
  /** The UPID. */
  readonly id: string;
  readonly resources: readonly string[];
  /** "joe@pve" or "joe@pve!ci". */
  readonly actor: string;
  readonly traceparent: string | undefined;
  readonly clock: Clock;
  readonly log: (line: string) => void;
  /** A log line that also counts: the task ends with `WARNINGS: n`. */
  readonly warn: (line: string) => void;
  /** Fraction of this step, 0 to 1. */
  readonly progress: (fraction: number, text?: string) => void;
  /** Journals `state` now, so that an undo after a crash inside this step knows what was begun. */
  readonly checkpoint: () => Promise<void>;
}

/** Thrown by an undo that must not go on, such as over somebody else's change: not tried again, told in the result. */
export class LeftAsItIs extends Error {
  override readonly name = "LeftAsItIs";
}

export interface Step<Args = unknown, State extends object = Record<string, unknown>> {
  /** Unique in its operation; the journal knows a step by it. */
  readonly name: string;
  run(ctx: StepContext<Args, State>): Promise<void> | void;
  /** Must also work when `run` never began or stopped halfway. */
  undo?(ctx: StepContext<Args, State>): Promise<void> | void;
  /** Share of the progress bar; default 1. */
  readonly weight?: number;
}

export interface OperationDefinition<Args = unknown, State extends object = Record<string, unknown>> {
  /** Also PVE's worker type in the UPID: "qmstart". */
  readonly type: string;
  /** That one, where PVE has the same for work of several kinds. */
  readonly taskType?: string;
  readonly steps?: readonly Step<Args, State>[];
  /** Steps that depend on the arguments. Must give the same steps for the same arguments. */
  plan?(args: Args): readonly Step<Args, State>[];
  initialState?(args: Args): State;
  /** What a restart does with an operation that was cut off in a step. Default "undo". */
  readonly onCrash?: "resume" | "undo";
  /** PVE's lock name ("clone"): while such an operation runs, synchronous methods are refused at once. */
  readonly lock?: string | ((args: Args) => string | undefined);
  /** Types that this one ends, and whose place it takes, when they wait or run on a shared resource. */
  readonly overtakes?: readonly string[];
  /** It only waits for somebody outside (an open console), maybe for days: it takes no place among the busy ones. */
  readonly idle?: true;
  /** Synchronous methods may not get in between its steps. */
  readonly exclusive?: boolean;
}

/** A definition as the engine keeps it: arguments and state are JSON to it. */
export type AnyDefinition = OperationDefinition<unknown, Record<string, unknown>>;
export type AnyStep = Step<unknown, Record<string, unknown>>;

export class OperationRegistry {
  readonly #definitions = new Map<string, AnyDefinition>();

  register<Args, State extends object>(definition: OperationDefinition<Args, State>): void {
    if (this.#definitions.has(definition.type))
      throw new AppError("internal.error", `operation '${definition.type}' is registered twice`);
    if ((definition.steps === undefined) === (definition.plan === undefined))
      throw new AppError("internal.error", `operation '${definition.type}' needs either steps or a plan`);
    // The engine hands back exactly what was submitted for this type, so the types meet again here.
    this.#definitions.set(definition.type, definition as unknown as AnyDefinition);
  }

  get(type: string): AnyDefinition | undefined {
    return this.#definitions.get(type);
  }
}

export function stepsOf(definition: AnyDefinition, args: unknown): readonly AnyStep[] {
  const steps = definition.plan?.(args) ?? definition.steps ?? [];
  const names = new Set(steps.map((step) => step.name));
  if (names.size !== steps.length)
    throw new AppError("internal.error", `operation '${definition.type}' has two steps of one name`);
  return steps;
}

export function lockOf(definition: AnyDefinition | undefined, args: unknown): string | undefined {
  const lock = definition?.lock;
  return typeof lock === "function" ? lock(args) : lock;
}
