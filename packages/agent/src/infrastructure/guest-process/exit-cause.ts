import type { GuestExitCause } from "@gpve/domain/guest/guest-processes.ts";
import type { EndNote } from "./guest-folder.ts";

export interface ExitFacts {
  readonly exitCode?: number;
  readonly signal?: number;
  readonly sameBoot: boolean;
  readonly note?: EndNote;
  readonly lastWords: string;
}

// QEMU catches SIGTERM, SIGINT and SIGHUP and exits with 0; only its last line tells.
const SIGNALLED = /terminating on signal \d+/;

/** Tells apart how a guest ended, from what the supervisor and we wrote down. */
export function causeOf(facts: ExitFacts): GuestExitCause {
  if (facts.note?.by === "us") return "stopped";
  if (facts.note?.by === "guest") return "shutdown";
  if (facts.exitCode === undefined && facts.signal === undefined)
    return facts.sameBoot ? "unknown" : "hostReboot";
  if (facts.signal !== undefined && facts.signal !== 0)
    return [1, 2, 9, 15].includes(facts.signal) ? "killed" : "crashed";
  if (facts.exitCode !== 0) return "crashed";
  return SIGNALLED.test(facts.lastWords) ? "killed" : "shutdown";
}
