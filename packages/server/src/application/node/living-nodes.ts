// Whether the machine of a node may still run guests: another one that took its name then would start them a second time.
import { AppError } from "@gpve/contracts/errors.ts";
import { leaseCollection, leaseId, leaseTimes, mayBeTaken } from "@gpve/domain/ha/node-lease.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { LeaseWatch } from "../ha/lease-watch.ts";

export interface LivingNodesDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly board: Pick<NodeBoard, "get">;
}

export class LivingNodes {
  readonly #board: LivingNodesDeps["board"];
  readonly #leases: LeaseWatch;

  constructor({ records, clock, board }: LivingNodesDeps) {
    this.#board = board;
    this.#leases = new LeaseWatch(records, clock);
  }

  /** Throws resource.busy: whoever joins asks again until it is so, for a while. */
  requireGone(tx: Tx, node: string): void {
    if (this.#board.get(node)?.health === "online")
      throw new AppError(
        "resource.busy",
        `node ${node} is online: another machine can take its place when it is powered off, or after gpvectl node remove ${node}`,
      );
    const { revision, unchangedMs } = this.#leases.of(node);
    const stored = tx.get(leaseCollection, leaseId(node));
    // One that was written since was not seen for any time: the transaction fails if it is written from here on.
    const seenMs = stored?.revision === revision ? unchangedMs : 0;
    if (mayBeTaken(stored?.value, seenMs)) return;
    throw new AppError(
      "resource.busy",
      `the machine that was node ${node} may still run guests under HA: its place is free when it has given no sign of life for ${leaseTimes.leaseMs / 1000} s. Power it off, or restart it where it is the same machine`,
    );
  }
}
