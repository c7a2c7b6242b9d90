// Which phase a VM is in: from the work under way on it, the work that ended last, and what its node reports.
import type { VmPhase } from "@gpve/contracts/v1/vm-phase.ts";

/** Work on a VM that its life depends on, by the word its tasks have. */
export interface LifeWork {
  readonly type: string;
  /** Milliseconds; absent while it goes on. */
  readonly endedAt?: number;
  readonly ok?: boolean;
}

export interface VmFacts {
  /** What the node reported last, and when by its own clock. */
  readonly reported: { readonly running: boolean; readonly at: number } | undefined;
  readonly lock: string | undefined;
  /** Goes on now. */
  readonly work: LifeWork | undefined;
  /** Ended last. */
  readonly last: LifeWork | undefined;
  /** It was told to pause, and not to go on since. */
  readonly isPaused: boolean;
  /** The phase it was in until now; undefined = nobody knows yet. */
  readonly was?: VmPhase | undefined;
}

interface WorkMeaning {
  /** While it goes on. */
  readonly during: VmPhase;
  /** Only of a VM that runs: of one that does not, it changes nothing in its life. */
  readonly onlyRunning?: true;
  /** Whether it runs when this has gone well. */
  readonly leaves?: "running" | "stopped";
  /** Paused or not when this has gone well. */
  readonly pauses?: boolean;
  /** One that does not run after this has gone wrong has failed. */
  readonly mayFail?: true;
  /** It has another node afterwards, whose reports may be from before. */
  readonly moves?: true;
}

/** What each word means for a life. Words that are not here mean nothing for it. */
export const lifeWork: Readonly<Record<string, WorkMeaning>> = {
  qmcreate: { during: "Creating", mayFail: true },
  qmrestore: { during: "Creating", mayFail: true },
  qmstart: { during: "Starting", leaves: "running", pauses: false, mayFail: true },
  qmstop: { during: "Stopping", leaves: "stopped" },
  qmshutdown: { during: "Stopping", leaves: "stopped" },
  qmsuspend: { during: "Stopping", onlyRunning: true, leaves: "stopped" },
  qmreboot: { during: "Rebooting", onlyRunning: true, pauses: false },
  qmreset: { during: "Rebooting", onlyRunning: true },
  qmpause: { during: "Running", onlyRunning: true, pauses: true },
  qmresume: { during: "Paused", onlyRunning: true, pauses: false },
  qmigrate: { during: "Migrating", onlyRunning: true, mayFail: true, moves: true },
  qmsnapshot: { during: "Snapshotting", onlyRunning: true, mayFail: true },
  qmdestroy: { during: "Deleting" },
  "reset-state": { during: "Stopped" },
};

/** PVE's locks that say what goes on where no task of the VM itself does. */
const LOCKS: Readonly<Record<string, VmPhase>> = { create: "Creating", clone: "Creating" };

/** A task's end is told in whole seconds: only a report from after that second has surely seen it. */
export const END_GRAIN_MS = 1_000;

/** undefined = nobody knows: its node has not said anything yet. */
export function vmPhaseOf(facts: VmFacts): VmPhase | undefined {
  const { work, last, lock, isPaused, was } = facts;
  const running = runs(facts);
  const meaning = work === undefined ? undefined : lifeWork[work.type];
  if (meaning?.moves === true && was === meaning.during) return was;
  if (meaning !== undefined && (meaning.onlyRunning !== true || running === true)) return meaning.during;
  const locked = lock === undefined ? undefined : LOCKS[lock];
  if (locked !== undefined && running !== true) return locked;
  if (running === undefined) return undefined;
  if (running) return isPaused ? "Paused" : "Running";
  return last?.ok === false && hasFailed(lifeWork[last.type], was) ? "Failed" : "Stopped";
}

/** Work that is only about a VM that runs leaves one that did not as it was. */
function hasFailed(meaning: WorkMeaning | undefined, was: VmPhase | undefined): boolean {
  if (meaning?.mayFail !== true) return false;
  return meaning.onlyRunning !== true || was === undefined || was === meaning.during || was === "Failed";
}

/** What ended well after the last report is newer than it. */
function runs({ last, reported, was }: VmFacts): boolean | undefined {
  const meaning = last?.ok === true ? lifeWork[last.type] : undefined;
  const endedAt = last?.endedAt ?? 0;
  if (meaning !== undefined && (reported === undefined || reported.at < endedAt + END_GRAIN_MS)) {
    if (meaning.leaves !== undefined) return meaning.leaves === "running";
    if (meaning.moves === true && (was === meaning.during || was === "Running")) return true;
  }
  return reported?.running;
}
