// Room that was promised to a request, from before its work begins until the guest's record shows what came of it. The
// record is the truth; a reservation covers only the time between.
import type { GuestType } from "../guest/guest-kinds.ts";
import type { Amounts } from "./amounts.ts";

export interface Reservation {
  readonly requestId: string;
  readonly route: string;
  readonly node: string;
  readonly vmid: number;
  readonly type: GuestType;
  /** The guest that the task is named after: of a clone its source. */
  readonly about: number;
  /** Of a guest that is not there yet: the pool it goes to. */
  readonly pool?: string;
  /** All that a new guest takes; what one that is there will take more. */
  readonly demand: Amounts;
  /** As they will be. */
  readonly tags: readonly string[];
  /** Of a guest that is not there yet, where it has one. */
  readonly priority?: number;
  readonly isNew: boolean;
  /** It will run, and counts as running until its node has told that it does not. */
  readonly starts: boolean;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The process of a server that made it. */
  readonly by: string;
  /** The task that does the work. */
  readonly upid?: string;
  /** Whether the node was told is not known: the connection broke, or whoever asked went away. */
  readonly lost?: true;
}

/** What a reservation's fate depends on. */
export interface ReservationFacts {
  readonly now: number;
  /** This process of this server; those before it are dead. */
  readonly by: string;
  /** undefined: there is no such task, or no more. */
  readonly taskEnd: (upid: string) => { readonly endtime: number | undefined } | undefined;
  /** Whether a task of the node about the guest has not ended. */
  readonly isWorkedOn: (node: string, vmid: number) => boolean;
  readonly isThere: (vmid: number) => boolean;
  /** What the node last told of it, and when; undefined: nothing yet. */
  readonly told: (
    node: string,
    vmid: number,
  ) => { readonly at: number; readonly running: boolean } | undefined;
}

/** A node that was told has a task to show for it by then, and a task that ended has been seen by all. */
export const GRACE_MS = 60_000;
/** Longer than any call to a node lasts. */
export const LONGEST_CALL_MS = 900_000;

/** What is left of it: itself, only that the guest runs, or nothing. */
export function leftOf(reservation: Reservation, facts: ReservationFacts): Reservation | undefined {
  if (!isWorkOver(reservation, facts)) return reservation;
  if (!reservation.starts || !facts.isThere(reservation.vmid)) return undefined;
  const { upid, vmid, node } = reservation;
  const told = facts.told(node, vmid);
  const ended = upid === undefined ? reservation.at / 1000 : (facts.taskEnd(upid)?.endtime ?? 0);
  // The end of a task is known to the second only.
  if (told !== undefined && !told.running && told.at > (ended + 1) * 1000) return undefined;
  if (!reservation.isNew && Object.keys(reservation.demand).length === 0) return reservation;
  const { pool: _there, ...kept } = reservation;
  return { ...kept, isNew: false, demand: {} };
}

function isWorkOver({ upid, by, lost, at, node, about }: Reservation, facts: ReservationFacts): boolean {
  if (upid !== undefined) {
    const task = facts.taskEnd(upid);
    return task === undefined ? facts.now > at + GRACE_MS : task.endtime !== undefined;
  }
  if (by === facts.by && lost !== true) return false;
  const isDead = lost === true || serverOf(by) === serverOf(facts.by);
  if (facts.now < at + (isDead ? GRACE_MS : LONGEST_CALL_MS)) return false;
  return !facts.isWorkedOn(node, about);
}

/** `server#process`. */
function serverOf(by: string): string {
  return by.slice(0, by.lastIndexOf("#"));
}
