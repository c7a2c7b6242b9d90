// Runs a saga through everything that can happen to it: a crash before and after every step and every undo, a
// failure at every step, a cancel in every step, every step and every undo twice. Each run has a fresh world and
// must end done or undone, with a clean journal and nothing locked. See docs/how-to/write-an-operation.md.
import { strict as assert } from "node:assert";
import { messageOf } from "@gpve/contracts/errors.ts";
import { stepsOf } from "../operation/definition.ts";
import type { AnyDefinition, AnyStep, OperationDefinition } from "../operation/definition.ts";
import type { OperationEngine } from "../operation/engine.ts";
import type { CrashInjector, CrashPoint } from "../operation/ports.ts";
import type { OperationView } from "../operation/record.ts";
import { isEnded } from "../operation/states.ts";
import { isAt } from "./kill-at.ts";
import type { PointOfInterest } from "./kill-at.ts";
import { JournalDisk, MemoryJournal } from "./memory-journal.ts";
import { MemoryTaskLogs } from "./memory-task-logs.ts";
import { testEngine } from "./operation-engine.ts";

export interface SagaRegistry {
  register<Args, State extends object>(definition: OperationDefinition<Args, State>): void;
}

export interface SagaTest<World> {
  /** A fresh world for every run: a directory, a fake store. */
  prepare(): Promise<World> | World;
  /**
   * Registers the saga on a world and says what to submit. Called once per "process": after a crash again, so
   * nothing may be kept in memory that a real process would lose.
   */
  define(
    engine: SagaRegistry,
    world: World,
  ): { readonly type: string; readonly args?: unknown; readonly resources?: readonly string[] };
  /** Looks at the world: everything is there, or nothing is left. Throws when not. */
  check(world: World, outcome: "done" | "undone", operation: OperationView): Promise<void> | void;
  cleanup?(world: World): Promise<void> | void;
}

export interface SagaReport {
  readonly runs: number;
  /** Where a run without trouble could crash: feed these to `killAt` for the same matrix with real processes. */
  readonly points: readonly PointOfInterest[];
  /** Where a run that fails in its last step could crash while it is undone. */
  readonly undoPoints: readonly PointOfInterest[];
}

interface Scenario {
  readonly name: string;
  /** Crash at these points, one process each, in this order. */
  readonly crashes?: readonly PointOfInterest[];
  /** Fails once in this step. */
  readonly fail?: { readonly step: string; readonly when: "before" | "after" };
  readonly cancelIn?: string;
  readonly isTwice?: boolean;
  readonly expect?: "done" | "undone";
}

/** Throws on the first run that ends badly, naming it. */
export async function testSaga<World>(saga: SagaTest<World>): Promise<SagaReport> {
  const plain = await runScenario(saga, { name: "no trouble", expect: "done" });
  const steps = plain.points.filter(({ phase }) => phase === "before-run").map(({ step }) => step);
  assert.ok(steps.length > 0, "the saga has no steps");
  const last = steps.at(-1) ?? "";
  const lastFails = { fail: { step: last, when: "after" }, expect: "undone" } as const;
  const failed = await runScenario(saga, { name: "the last step fails", ...lastFails });
  const undoPoints = failed.points.filter(({ phase }) => phase !== "before-run" && phase !== "after-run");
  const afterLast: PointOfInterest = { phase: "after-run", step: last };
  const cut = await runScenario(saga, { name: "a crash after the last step", crashes: [afterLast] });

  const scenarios: readonly Scenario[] = [
    ...plain.points.map((at) => ({ name: `a crash at ${shown(at)}`, crashes: [at] })),
    ...undoPoints.map((at) => ({
      name: `the last step fails, then a crash at ${shown(at)}`,
      crashes: [at],
      ...lastFails,
    })),
    ...cut.points
      .filter((at) => !isSame(at, afterLast))
      .map((at) => ({
        name: `a crash after the last step and another at ${shown(at)}`,
        crashes: [afterLast, at],
      })),
    ...steps.flatMap((step) =>
      (["before", "after"] as const).map((when) => ({
        name: `step '${step}' fails ${when} its work`,
        fail: { step, when },
        expect: "undone" as const,
      })),
    ),
    ...steps.map((step) => ({ name: `a cancel in step '${step}'`, cancelIn: step })),
    { name: "every step twice", isTwice: true, expect: "done" },
    { name: "every step and every undo twice", isTwice: true, ...lastFails },
  ];
  for (const scenario of scenarios) await runScenario(saga, scenario);
  return { runs: scenarios.length + 3, points: plain.points, undoPoints };
}

async function runScenario<World>(
  saga: SagaTest<World>,
  scenario: Scenario,
): Promise<{ readonly points: readonly PointOfInterest[] }> {
  const world = await saga.prepare();
  try {
    return await new SagaRun(saga, scenario, world).toEnd();
  } catch (error) {
    throw new Error(`saga, ${scenario.name}: ${messageOf(error)}`, { cause: error });
  } finally {
    await saga.cleanup?.(world);
  }
}

class SagaRun<World> {
  readonly #saga: SagaTest<World>;
  readonly #scenario: Scenario;
  readonly #world: World;
  readonly #disk = new JournalDisk();
  readonly #logs = new MemoryTaskLogs();
  readonly #points: PointOfInterest[] = [];
  #hasFailed = false;
  #hasCancelled = false;
  #engine: OperationEngine | undefined;

  constructor(saga: SagaTest<World>, scenario: Scenario, world: World) {
    this.#saga = saga;
    this.#scenario = scenario;
    this.#world = world;
  }

  async toEnd(): Promise<{ readonly points: readonly PointOfInterest[] }> {
    for (const at of this.#scenario.crashes ?? []) await this.#process(at);
    await this.#process();
    return { points: this.#points };
  }

  /** One life of a process, up to its crash or to the end of the operation. */
  async #process(crashAt?: PointOfInterest): Promise<void> {
    const journal = new MemoryJournal(this.#disk);
    const { promise: crashed, resolve } = Promise.withResolvers<"crashed">();
    const crash: CrashInjector = {
      hit: (point) => {
        this.#record(point);
        if (crashAt === undefined || !isAt(point, crashAt)) return undefined;
        journal.die();
        resolve("crashed");
        return new Promise<void>(() => {});
      },
    };
    const { engine } = testEngine({ journal, crash, logs: this.#logs });
    this.#engine = engine;
    const request = this.#saga.define({ register: (definition) => this.#register(definition) }, this.#world);
    await engine.start();
    if ([...engine.list()].length === 0)
      await engine.submit({ resources: [], actor: "root@pam", requestId: "saga", ...request });
    const [known] = engine.list();
    assert.ok(known, "the operation is not in the journal");
    const result = await Promise.race([crashed, engine.wait(known.id)]);
    if (result === "crashed") return;
    await this.#judge(engine, result, request.resources ?? []);
    await engine.stop();
  }

  async #judge(engine: OperationEngine, ended: OperationView, resources: readonly string[]): Promise<void> {
    const outcome = ended.state === "done" ? "done" : "undone";
    const left = ended.steps.filter(({ state }) => state === "undoFailed");
    assert.deepEqual(left, [], "an undo gave up");
    assert.ok(
      this.#disk.list().every(({ state }) => isEnded(state)),
      "the journal has an open operation",
    );
    assert.deepEqual(engine.counts(), { waiting: 0, running: 0 }, "something still waits or runs");
    await engine.withResource(resources, { waitMs: 100 }, () => {});
    const lastLines = this.#logs.lines.get(ended.id)?.filter((line) => line.startsWith("TASK ")) ?? [];
    assert.equal(lastLines.length, 1, "the log must have one last line");
    const { expect } = this.#scenario;
    if (expect !== undefined)
      assert.equal(outcome, expect, `it ended ${ended.state}: ${ended.exitStatus ?? ""}`);
    await this.#saga.check(this.#world, outcome, ended);
  }

  #register<Args, State extends object>(definition: OperationDefinition<Args, State>): void {
    const plain = definition as unknown as AnyDefinition;
    const { steps: _steps, ...rest } = plain;
    this.#engine?.register({
      ...rest,
      plan: (args: unknown) => stepsOf(plain, args).map((step) => this.#wrapped(step)),
    });
  }

  #wrapped(step: AnyStep): AnyStep {
    const { fail, cancelIn, isTwice = false } = this.#scenario;
    const failIf = (when: "before" | "after"): void => {
      if (this.#hasFailed || fail?.step !== step.name || fail.when !== when) return;
      this.#hasFailed = true;
      throw new Error(`made to fail ${when} '${step.name}'`);
    };
    const undo: AnyStep["undo"] = (ctx) => step.undo?.(ctx);
    return {
      ...step,
      run: async (ctx) => {
        failIf("before");
        if (cancelIn === step.name && !this.#hasCancelled) {
          this.#hasCancelled = true;
          await this.#engine?.cancel(ctx.id, "root@pam");
        }
        for (let time = 0; time < (isTwice ? 2 : 1); time++) await step.run(ctx);
        failIf("after");
      },
      ...(step.undo === undefined
        ? {}
        : {
            undo: async (ctx) => {
              for (let time = 0; time < (isTwice ? 2 : 1); time++) await undo(ctx);
            },
          }),
    };
  }

  #record({ phase, step }: CrashPoint): void {
    if (!this.#points.some((known) => isSame(known, { phase, step }))) this.#points.push({ phase, step });
  }
}

function isSame(a: PointOfInterest, b: PointOfInterest): boolean {
  return a.phase === b.phase && a.step === b.step;
}

function shown({ phase, step }: PointOfInterest): string {
  return step === "" ? phase : `${phase} of '${step}'`;
}
