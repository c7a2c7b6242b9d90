// What an apply that was killed had asked the platform for goes on there without it. The next one meets it half done: a
// guest that is not listed yet and whose VMID is taken, one that is locked, a template that becomes one meanwhile.
import type { Clock } from "@gpve/kit/clock.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import { interrupted, type JournalLine } from "../../folder/journal.ts";
import { type Step, stepName } from "../../plan/plan-steps.ts";
import type { Finding } from "../../preflight/finding-report.ts";
import type { World } from "../world.ts";

const PAUSE_MS = 2_000;
/** For what is neither listed nor locked. */
const UNSEEN_MS = 120_000;
/** A copy of a large disk takes its time, and the guest is locked for all of it. */
const LOCKED_MS = 15 * 60_000;

const OF_PLATFORM = /^(?:guest|template|balancer|image)\./;
/** What the platform says of a guest that it has not finished, where nothing else is known of it. */
const HALF_MADE: ReadonlySet<Finding["id"]> = new Set([
  "vmid-taken",
  "template-vmid-taken",
  "vmids-exhausted",
]);

export interface UnderwayDeps {
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  /** What is there, and what would be done about it. */
  readonly look: () => Promise<{
    readonly world: World;
    readonly steps: readonly Step[];
    readonly findings: readonly Finding[];
  }>;
}

export class Underway {
  readonly #cut: ReadonlySet<string>;
  readonly #begun: number;
  readonly #clock: Clock;

  /** `lines`: of the journal, before anything of this run is in it. */
  constructor(lines: readonly JournalLine[], clock: Clock) {
    this.#cut = new Set([...interrupted(lines)].filter((step) => OF_PLATFORM.test(step)));
    this.#clock = clock;
    this.#begun = clock.monotonic();
  }

  /** Whether these may be findings of what is only half made, which the next look knows better. */
  mayPass(findings: readonly Finding[]): boolean {
    const isYoung = this.#clock.monotonic() - this.#begun < UNSEEN_MS;
    return (
      this.#cut.size > 0 && isYoung && findings.length > 0 && findings.every(({ id }) => HALF_MADE.has(id))
    );
  }

  /** A step of the platform that was refused: until it is seen to be done by what was begun before. Else it fails as it did. */
  async settle(step: Step, err: unknown, { clock, signal, look }: UnderwayDeps): Promise<void> {
    if (!this.#cut.has(stepName(step)) || !isAppError(err)) throw err;
    const begun = clock.monotonic();
    for (;;) {
      await clock.sleep(PAUSE_MS, signal);
      const { world, steps, findings } = await look();
      const isLocked = lockOf(world, step) !== undefined;
      const isDecided = steps.some((each) => stepName(each) === stepName(step));
      if (!isLocked && !isDecided && findings.length === 0) return;
      if (clock.monotonic() - begun >= (isLocked ? LOCKED_MS : UNSEEN_MS)) throw err;
    }
  }
}

function lockOf(world: World, { subject }: Step): string | undefined {
  const guest = world.machines.get(subject)?.guest ?? world.templates.find(({ name }) => name === subject);
  return guest?.config["lock"];
}
