// Guests that come from other nodes, whatever their kind.
import type { MoveReceiver } from "@gpve/domain/guest/move-channel.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { missing } from "@gpve/domain/request/failures.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { findMove } from "./move-ports.ts";
import type { GuestArrivals, NodeKind } from "./node-kind.ts";

const NOTE_PATIENCE_MS = 3_000;
const NOTE_POLL_MS = 25;

export function moveReceiver(deps: {
  readonly records: () => Records;
  readonly clock: Clock;
  readonly kinds: readonly Pick<NodeKind, "type" | "arrivals" | "replicas">[];
}): MoveReceiver {
  const { records, clock, kinds } = deps;
  const arrivalsOf = (move: GuestMove): GuestArrivals => {
    const found = kinds.find(({ arrivals }) => arrivals?.has(move) === true)?.arrivals;
    if (found === undefined) throw missing(`nothing was prepared for guest ${move.vmid}`);
    return found;
  };
  return {
    // The other end may have heard of it first, and an agent that has just begun has not heard of anything.
    find: async (vmid, moveId) => {
      for (let waited = 0; ; waited += NOTE_POLL_MS) {
        const isLast = waited >= NOTE_PATIENCE_MS;
        try {
          const move = findMove(records(), { vmid, moveId });
          if (move !== undefined || isLast) return move;
        } catch (err) {
          if (isLast || !isAppError(err, "store.unavailable")) throw err;
        }
        await clock.sleep(NOTE_POLL_MS);
      }
    },
    prepare: async (move, offer, gone) => {
      const arrivals = kinds.find(({ type }) => type === offer.type)?.arrivals;
      if (arrivals === undefined)
        throw new AppError("feature.unsupported", `this node takes no guests of type ${offer.type} over`);
      return arrivals.prepare(move, offer, gone);
    },
    receive: (move, volid, source) => arrivalsOf(move).receive(move, volid, source),
    replicas: kinds.find(({ replicas }) => replicas !== undefined)?.replicas,
    start: (move, wanted, key) => arrivalsOf(move).start(move, wanted, key),
    announce: async (move) => arrivalsOf(move).announce?.(move),
    socketOf: (move, channel) => arrivalsOf(move).socketOf(move, channel),
  };
}
