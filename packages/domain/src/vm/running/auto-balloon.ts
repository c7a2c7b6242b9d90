// Who gives memory back when the host runs short, and who gets it when there is plenty. PVE's rules: four fifths of the
// host's memory are to be used, what guests have above their minimum is shared by their weights, and nobody is moved by
// more than a step at a time, as guests need a while to follow.

export interface BalloonedGuest {
  readonly vmid: number;
  /** Bytes it has now. */
  readonly balloon: number;
  /** Bytes that it keeps, and that it has at most. */
  readonly min: number;
  readonly max: number;
  readonly shares: number;
  /** Bytes it does not use, by its own account. */
  readonly free?: number;
}

const MIB = 1024 * 1024;
const USED_SHARE = 0.8;
/** Less than this is not worth moving anything. */
const LEAST_GOAL = 10 * MIB;
const MOST_STEP = 100 * MIB;
/** Each round settles at least one guest, or moves bytes that rounding left over. */
const MOST_ROUNDS = 100;

/** Bytes that each guest shall have; only those that shall have others than now. */
export function balloonTargets(
  guests: readonly BalloonedGuest[],
  host: { readonly total: number; readonly used: number },
): ReadonlyMap<number, number> {
  const goal = Math.trunc(host.total * USED_SHARE - host.used);
  if (Math.abs(goal) <= LEAST_GOAL) return new Map();
  const first = guests.filter((guest) => isRich(guest) === goal < 0);
  const moved = spread(first, goal);
  return moved.size > 0 ? moved : spread(guests, goal);
}

/** It can spare something. A guest that does not tell is taken to need what it has. */
function isRich({ free = 0, balloon, min }: BalloonedGuest): boolean {
  return free > min / 4 && balloon >= min;
}

function spread(guests: readonly BalloonedGuest[], bytes: number): ReadonlyMap<number, number> {
  const targets = new Map(guests.map(({ vmid, balloon }) => [vmid, balloon]));
  const targetOf = ({ vmid, balloon }: BalloonedGuest): number => targets.get(vmid) ?? balloon;
  let open = guests;
  let rest = bytes;
  for (let round = 0; round < MOST_ROUNDS && rest !== 0; round++) {
    const above = open.reduce((sum, guest) => sum + targetOf(guest) - guest.min, 0) + rest;
    const weights = open.reduce((sum, { shares }) => sum + shares, 0);
    const before = rest;
    open = open.filter((guest) => {
      const fair = guest.min + Math.trunc((above / weights) * guest.shares);
      const wanted = Math.min(guest.max, Math.max(guest.min, fair));
      // Where memory is taken, nobody gets more; where it is given, who has more than his share still gives.
      if (wanted === guest.balloon || (bytes < 0 && wanted > guest.balloon)) return false;
      const next = Math.min(guest.balloon + MOST_STEP, Math.max(guest.balloon - MOST_STEP, wanted));
      rest -= next - targetOf(guest);
      targets.set(guest.vmid, next);
      return true;
    });
    if (rest === before) break;
  }
  return new Map(
    [...targets].filter(([vmid, bytesOf]) => guests.some((g) => g.vmid === vmid && g.balloon !== bytesOf)),
  );
}
