import { writeFileSync } from "node:fs";
import { ignore } from "@gpve/kit/background.ts";
import type { Logger } from "@gpve/kit/logger.ts";

/** Whoever stops the agent's group of processes must not stop this one: it goes where supervisors are. */
export function leaveServiceGroup(
  holdFiles: () => readonly string[],
  log: Logger,
  { pid, getuid }: Pick<NodeJS.Process, "pid" | "getuid"> = process,
): void {
  if (getuid?.() !== 0) return;
  try {
    for (const file of holdFiles()) writeFileSync(file, String(pid));
  } catch (err) {
    log.warn({}, "the fence process stays in the agent's group and ends with it where that is stopped whole");
    ignore(err, "said above");
  }
}
