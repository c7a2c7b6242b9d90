// Processes that outlive whoever started them.
import { kill } from "node:process";
import { readJsonFile } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import { isAlive, type ProcessIdentity } from "@gpve/kit/process-identity.ts";

const LOOK_EVERY_MS = 50;

/** Whom a lock or a note names, while it lives. */
export function livingProcess(file: string): ProcessIdentity | undefined {
  const holder = readJsonFile(file) as ProcessIdentity | undefined;
  return holder !== undefined && isAlive(holder) ? holder : undefined;
}

export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    kill(pid, signal);
  } catch (err) {
    ignore(err, "it has just ended");
  }
}

/** As a service manager does: asked first, killed when it has not ended by then. */
export async function endProcess(running: ProcessIdentity, patienceMs: number): Promise<void> {
  sendSignal(running.pid, "SIGTERM");
  // One that was frozen hears nothing until it is thawed.
  sendSignal(running.pid, "SIGCONT");
  const end = performance.now() + patienceMs;
  while (isAlive(running)) {
    if (performance.now() > end) sendSignal(running.pid, "SIGKILL");
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
