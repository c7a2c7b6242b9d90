// The end of a process's hold on the journal, which stops whatever it does with it.
import type { Clock } from "../clock.ts";

/** Thrown through a run that must stop where it is: the claim is lost or the process ends. */
export class Halted extends Error {
  override readonly name = "Halted";
}

export interface Halting {
  readonly clock: Pick<Clock, "sleep">;
  readonly halt: AbortSignal;
}

export function throwIfHalted({ halt }: Pick<Halting, "halt">): void {
  if (halt.aborted) throw new Halted("this process no longer owns the journal");
}

export async function pauseUnlessHalted(ms: number, { clock, halt }: Halting): Promise<void> {
  try {
    await clock.sleep(ms, halt);
  } catch (error) {
    throwIfHalted({ halt });
    throw error;
  }
}
