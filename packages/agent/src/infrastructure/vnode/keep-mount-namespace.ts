// A mount namespace that is kept as a file. A kernel lets none be kept inside one that is younger, so that none ever holds itself,
// and since Linux 6.18 it tells age by numbers that each processor has a stock of: made on another processor than the agent's own,
// a new namespace can seem older, and is refused (EINVAL) however often it is tried there. On the processor on which the agent's own
// was made it is taken.
import { availableParallelism } from "node:os";
import type { Exec } from "@gpve/kit/exec.ts";

export async function keepMountNamespace(
  exec: Exec,
  file: string,
  processors = availableParallelism(),
): Promise<void> {
  const unshare = ["unshare", `--mount=${file}`, "--propagation", "slave", "true"] as const;
  const [program, ...args] = unshare;
  try {
    await exec(program, args);
  } catch (refused) {
    for (let processor = 0; processor < processors; processor++)
      if (await isTaken(exec, ["--cpu-list", String(processor), ...unshare])) return;
    throw refused;
  }
}

async function isTaken(exec: Exec, args: readonly string[]): Promise<boolean> {
  try {
    await exec("taskset", args);
    return true;
  } catch {
    return false; // a processor that is not the agent's, or one on which the new one seems older too
  }
}
