// Carries a cluster to what is wanted: look, decide, do, check, and look again. Killed at any point, the next run looks
// at what is there and goes on.
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { RunJournal } from "../folder/journal.ts";
import { type Step, stepName } from "../plan/plan-steps.ts";
import type { Finding } from "../preflight/finding-report.ts";
import type { Actor } from "./act.ts";
import { decide } from "./decide/decide.ts";
import type { Desired } from "./desired.ts";
import { hearMachine, type HeardMachine, type Listen } from "./observe/hear-machine.ts";
import { isDone, whatIsSeen } from "./progress/is-done.ts";
import type { Observer } from "./observe/observer.ts";
import { expectedTimes, timeoutOf } from "./progress/step-times.ts";
import { Tries } from "./progress/tries.ts";
import { Underway } from "./progress/underway.ts";
import type { World } from "./world.ts";

export interface StepReport {
  readonly event: "begin" | "waiting" | "done" | "failed";
  readonly step: Step;
  readonly elapsedMs: number;
  readonly expectedMs: number;
  /** What is waited for, or what went wrong. */
  readonly note?: string;
}

export interface ApplyDeps {
  readonly observer: Observer;
  readonly actor: Pick<Actor, "act">;
  readonly journal: RunJournal;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  /** Read again after every step: steps record things. */
  readonly desired: () => Desired;
  /** Called with every observation that shows etcd running. */
  readonly begun: (world: World) => void;
  readonly report: (report: StepReport) => void;
  /** Left out: nobody hears what machines say on their serial lines. */
  readonly listen?: Listen;
  readonly run: string;
}

export interface ApplyResult {
  readonly steps: readonly Step[];
  readonly findings: readonly Finding[];
  readonly world: World;
}

const PAUSE_MS = 2_000;
const REPORT_MS = 10_000;
/** For how long a platform may be away between two steps. */
const PATIENCE_MS = 120_000;
/** How many machines are worked on at once. */
const AT_ONCE = 8;

export async function runApply(deps: ApplyDeps): Promise<ApplyResult> {
  const done: Step[] = [];
  const tries = new Tries();
  const underway = new Underway(deps.journal.lines(), deps.clock);
  const line = (event: "run" | "end", note: string): void =>
    deps.journal.append({ at: new Date(deps.clock.now()).toISOString(), run: deps.run, event, note });
  line("run", deps.desired().cluster.metadata.name);
  for (;;) {
    deps.signal?.throwIfAborted();
    // Before anything was done there is nobody to wait for: who asked hears at once that nobody answers.
    const world = await look(deps, deps.clock.monotonic() + (done.length === 0 ? 0 : PATIENCE_MS));
    const { steps, findings } = decide(deps.desired(), world);
    if (steps.length === 0 && underway.mayPass(findings)) {
      await deps.clock.sleep(PAUSE_MS, deps.signal);
      continue;
    }
    if (steps.length === 0) {
      line("end", findings.length === 0 ? "nothing left to do" : findings.map(({ id }) => id).join(", "));
      return { steps: done, findings, world };
    }
    tries.count(steps.map(stepName));
    await inGroups(steps, (group) => runGroup(deps, group, world, underway));
    done.push(...steps);
    // Each phase gives every machine another configuration.
    if (steps.some(({ kind }) => kind === "record.rotated")) tries.forget();
  }
}

/** A node under load, or one whose server changes, is away for a moment; looking again changes nothing. */
async function look({ observer, clock, signal, begun }: ApplyDeps, until: number): Promise<World> {
  for (;;) {
    try {
      const world = await observer.observe();
      begun(world);
      return world;
    } catch (err) {
      const isAway = isAppError(err) && ["unavailable", "timeout"].includes(err.kind);
      if (!isAway || clock.monotonic() >= until) throw err;
      await clock.sleep(PAUSE_MS, signal);
    }
  }
}

/** Steps of one machine one after another, different machines beside each other. */
async function inGroups(
  steps: readonly Step[],
  work: (group: readonly Step[]) => Promise<void>,
): Promise<void> {
  const groups = [
    ...Map.groupBy(steps, (step) => (step.kind === "image.ensure" ? stepName(step) : step.subject)).values(),
  ];
  const failures: unknown[] = [];
  const next = async (): Promise<void> => {
    for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
      await work(group).catch((err: unknown) => {
        failures.push(err);
        groups.length = 0;
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, groups.length) }, next));
  if (failures.length > 0) throw failures[0];
}

async function runGroup(
  deps: ApplyDeps,
  group: readonly Step[],
  world: World,
  underway: Underway,
): Promise<void> {
  for (const step of group) await runStep(deps, step, world, underway);
}

async function runStep(deps: ApplyDeps, step: Step, world: World, underway: Underway): Promise<void> {
  const { journal, clock, actor, run, report } = deps;
  const begun = clock.monotonic();
  const expectedMs = expectedTimes(journal.lines())(step.kind);
  const tell = (event: StepReport["event"], note?: string): void =>
    report({
      event,
      step,
      elapsedMs: clock.monotonic() - begun,
      expectedMs,
      ...given({ note }),
    });
  const write = (event: "begin" | "done" | "failed", note?: string): void =>
    journal.append({
      at: new Date(clock.now()).toISOString(),
      run,
      event,
      step: stepName(step),
      ...(event === "begin" ? {} : { ms: Math.round(clock.monotonic() - begun) }),
      ...given({ note }),
    });
  write("begin");
  tell("begin");
  const heard = hearMachine(deps.listen, step, world);
  try {
    const work = () => actor.act(step, deps.desired(), world, (note) => tell("waiting", note));
    await retryBusy(deps, step, work).catch((err: unknown) =>
      underway.settle(step, err, {
        clock,
        ...given({ signal: deps.signal }),
        look: async () => {
          const now = await look(deps, clock.monotonic() + PATIENCE_MS);
          return { world: now, ...decide(deps.desired(), now) };
        },
      }),
    );
    await untilDone(deps, step, begun, tell, heard);
  } catch (err) {
    write("failed", messageOf(err));
    tell("failed", messageOf(err));
    throw heard.with(err);
  } finally {
    heard.close();
  }
  write("done");
  tell("done");
}

/** What is asked of Kubernetes alone, and may be asked again: its API is away for a moment when a control plane is. */
const ASKED_AGAIN: ReadonlySet<Step["kind"]> = new Set([
  "node.drain",
  "node.uncordon",
  "node.mark",
  "node.delete",
]);

/** "Not yet" is no failure. */
async function retryBusy({ clock, signal }: ApplyDeps, step: Step, work: () => Promise<void>): Promise<void> {
  const until = clock.monotonic() + timeoutOf(step.kind);
  for (;;) {
    try {
      return await work();
    } catch (err) {
      const isPassing =
        (isAppError(err, "resource.busy") && step.kind.startsWith("guest.") === false) ||
        (isAppError(err, "node.unavailable") && ASKED_AGAIN.has(step.kind));
      if (!isPassing) throw err;
      if (clock.monotonic() >= until) throw notDone(step, messageOf(err), timeoutFinding(step));
      await clock.sleep(PAUSE_MS, signal);
    }
  }
}

async function untilDone(
  deps: ApplyDeps,
  step: Step,
  begun: number,
  tell: (event: "waiting", note: string) => void,
  heard: HeardMachine,
): Promise<void> {
  // The platform answers when it has done it; the next look shows it.
  if (/^(?:guest|template|balancer|image|record)\./.test(step.kind)) return;
  const { clock, signal } = deps;
  const until = begun + timeoutOf(step.kind);
  let told = begun;
  for (;;) {
    const world = await look(deps, until);
    if (isDone(deps.desired(), world, step)) return;
    const note = whatIsSeen(world, step);
    if (world.machines.get(step.subject)?.talos.state === "foreign")
      throw notDone(step, note, "machine-foreign");
    if (clock.monotonic() >= until) throw notDone(step, note, timeoutFinding(step));
    if (clock.monotonic() - told >= REPORT_MS) {
      told = clock.monotonic();
      const latest = heard.latest();
      tell("waiting", latest === undefined ? note : `${note}; on its console: ${latest}`);
    }
    await clock.sleep(PAUSE_MS, signal);
  }
}

function timeoutFinding({ kind }: Step): string {
  if (kind === "etcd.join") return "etcd-not-joined";
  if (kind === "etcd.bootstrap") return "etcd-not-begun";
  if (kind === "kubernetes.reach") return "kubernetes-silent";
  if (kind === "node.ready") return "node-not-ready";
  if (kind === "addon.apply") return "addon-unhealthy";
  return kind.startsWith("talos.") ? "machine-silent" : "step-without-effect";
}

function notDone(step: Step, seen: string, finding: string): AppError {
  const minutes = Math.round(timeoutOf(step.kind) / 60_000);
  const text = finding === "machine-foreign" ? "" : ` within ${minutes} min`;
  return new AppError("request.timeout", `${stepName(step)} was not seen to be done${text}: ${seen}`, {
    data: { finding, step: stepName(step) },
  });
}
