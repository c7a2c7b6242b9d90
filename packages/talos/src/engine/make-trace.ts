// Every step until there is nothing left to do, if all goes well.
import type { Step } from "../plan/plan-steps.ts";
import type { Finding } from "../preflight/finding-report.ts";
import { decide } from "./decide/decide.ts";
import { keptTemplates } from "./decide/decide-templates.ts";
import type { Desired } from "./desired.ts";
import { afterRecord, predict } from "./predict.ts";
import type { World } from "./world.ts";

/** More than any cluster needs: a plan that does not end is a mistake of ours. */
const MOST_ROUNDS = 100_000;

export interface Trace {
  readonly steps: readonly Step[];
  /** What cannot be done as the file asks. */
  readonly findings: readonly Finding[];
  readonly world: World;
  /** What stays though nobody wants it, and why. */
  readonly kept: readonly string[];
}

export function makeTrace(desired: Desired, world: World): Trace {
  const steps: Step[] = [];
  let [wanted, seen] = [desired, world];
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const decision = decide(wanted, seen);
    if (decision.steps.length === 0) {
      const kept = keptTemplates({ desired: wanted, world: seen });
      return { steps, findings: decision.findings, world: seen, kept };
    }
    for (const step of decision.steps) {
      steps.push(step);
      seen = predict(wanted, seen, step);
      wanted = afterRecord(wanted, step);
    }
  }
  throw new Error("the plan does not come to an end");
}
