// Blue and green by a VIP: the cluster that has it gives it up, and only when none of its machines has it any more does the
// other one take it. Stopped anywhere, nobody has it or one has; never both.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Step } from "../plan/plan-steps.ts";
import type { Finding } from "../preflight/finding-report.ts";

export type HandOverSide = "old" | "new";

/** One of the two as it is now. */
export interface SeenSide {
  readonly name: string;
  /** What its file says of the VIP. */
  readonly holds: boolean;
  /** What an apply of its file would do. */
  readonly steps: readonly Step[];
  readonly findings: readonly Finding[];
}

/** give-up and take change a file; the others carry out what it says. */
export type HandOverStep = "give-up" | "apply-old" | "take" | "apply-new" | "done";

/** Refuses (object.conflict) whatever could leave the VIP with both, or a cluster half changed. */
export function nextOfHandOver(old: SeenSide, next: SeenSide): HandOverStep {
  if (next.holds && (old.holds || old.steps.length > 0))
    throw refused("front-held", `the file of ${next.name} has the VIP, and ${old.name} may still have it`);
  if (old.holds) {
    // While the old one still answers is the time to find out that the new one could not.
    refuseOtherWork(old, next);
    return "give-up";
  }
  refuseOtherWork(old, next);
  if (old.steps.length > 0) return "apply-old";
  if (!next.holds) return "take";
  return next.steps.length > 0 ? "apply-new" : "done";
}

/** Only configurations are given here: whatever else is to be done is done by apply, by itself. */
function refuseOtherWork(...sides: readonly SeenSide[]): void {
  for (const { name, steps, findings } of sides) {
    const other = steps.find(({ kind }) => kind !== "talos.reconfigure");
    const why = other === undefined ? findings[0]?.evidence : `${other.kind} ${other.subject}`;
    if (why !== undefined) throw refused("front-unready", `${name} is not as its file says: ${why}`);
  }
}

const refused = (finding: string, message: string): AppError =>
  new AppError("object.conflict", message, { data: { finding, next: "The VIP was left where it is." } });

export interface HandOverDeps {
  /** Looked at anew each time. */
  readonly look: (side: HandOverSide) => Promise<SeenSide>;
  readonly write: (side: HandOverSide, holds: boolean) => Promise<void> | void;
  /** Carries out what its file says; refuses when something is left. */
  readonly apply: (side: HandOverSide) => Promise<void>;
  readonly report: (step: HandOverStep) => void;
}

/** More than any way through it has. */
const MOST_STEPS = 12;

export async function runHandOver(deps: HandOverDeps): Promise<void> {
  for (let count = 0; count < MOST_STEPS; count += 1) {
    const step = nextOfHandOver(await deps.look("old"), await deps.look("new"));
    deps.report(step);
    if (step === "done") return;
    if (step === "give-up") await deps.write("old", false);
    if (step === "take") await deps.write("new", true);
    if (step === "apply-old") await deps.apply("old");
    if (step === "apply-new") await deps.apply("new");
  }
  throw new AppError("operation.failed", "the VIP was handed over again and again, and nobody has it");
}
