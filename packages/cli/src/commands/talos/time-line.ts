// What happens while a cluster is made: each step with the time it takes and the time it usually takes.
import { isWaiting } from "@gpve/talos/engine/progress/step-times.ts";
import type { StepReport } from "@gpve/talos/engine/run-apply.ts";
import type { Step } from "@gpve/talos/plan/plan-steps.ts";
import { stepText } from "@gpve/talos/plan/step-text.ts";
import type { Cli } from "../../command.ts";

export class TimeLine {
  readonly #cli: Cli;
  /** Says of a step what one would type; undefined: it is not printed. */
  readonly #commandOf: ((step: Step) => string) | undefined;
  readonly #begun: number;
  /** From the first begin to the last end of steps that only wait, and of ours. */
  #waitedMs = 0;
  #ownMs = 0;

  constructor(cli: Cli, commandOf?: (step: Step) => string) {
    this.#cli = cli;
    this.#commandOf = commandOf;
    this.#begun = cli.io.clock.monotonic();
  }

  report({ event, step, elapsedMs, expectedMs, note }: StepReport): void {
    const { out } = this.#cli;
    if (event === "done") {
      if (isWaiting(step.kind)) this.#waitedMs += elapsedMs;
      else this.#ownMs += elapsedMs;
    }
    if (!out.forPeople) return;
    const at = clockText(this.#cli.io.clock.monotonic() - this.#begun);
    const [first = ""] = stepText(step)
      .replace(/^[+~ -] */, "")
      .split("\n");
    const { green, red, dim } = out.colours;
    const times = `${secondsText(elapsedMs)}, usually ${secondsText(expectedMs)}`;
    if (event === "begin") {
      out.line(dim(`${at}  … ${first}`));
      if (this.#commandOf !== undefined) out.line(this.#commandOf(step));
    }
    if (event === "waiting") out.line(dim(`${at}    ${times}: ${note ?? ""}`));
    if (event === "done") out.line(`${at}  ${green("✓")} ${first} (${times})`);
    if (event === "failed") out.line(`${at}  ${red("✗")} ${first} (${times})`);
  }

  end(name: string): void {
    const total = this.#cli.io.clock.monotonic() - this.#begun;
    this.#cli.out.done(
      `${name} is as its file says, after ${clockText(total)}: ${secondsText(this.#ownMs)} of work on the platform, ${secondsText(this.#waitedMs)} of waiting for boots, pulls and joins (steps beside each other count each).`,
    );
  }
}

function clockText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return `${String(Math.floor(seconds / 60)).padStart(2, " ")}:${String(seconds % 60).padStart(2, "0")}`;
}

const secondsText = (ms: number): string => `${Math.round(ms / 1000)} s`;
