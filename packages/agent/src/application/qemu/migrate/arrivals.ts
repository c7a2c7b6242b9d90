// VMs that come from other nodes. Each is an operation in the VM's queue here, from the offer until it is ours or not:
// whose it is, the store says, and an end is made of it accordingly, also after a crash.
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { MoveAnswer, MoveOffer, MoveSource } from "@gpve/domain/guest/move-channel.ts";
import type { TakenRam } from "@gpve/domain/vm/migrate/direct-line.ts";
import type { WantedTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import { conflict, missing } from "@gpve/domain/request/failures.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { ignore } from "@gpve/kit/background.ts";
import { vmKey } from "../request/vm-tasks.ts";

export interface Arrival {
  readonly move: GuestMove;
  readonly offer: MoveOffer;
  /** Fires when who offers it is gone. */
  readonly gone: AbortSignal;
  /** Its volumes may be sent. */
  readonly ready: PromiseWithResolvers<MoveAnswer>;
  /** Volumes made for it, by the names they have at the other node. */
  volumes: Record<string, string>;
  /** Its QEMU waits: told when that is over, however. */
  isOver?: () => void;
  /** What the operation offers while it waits. */
  work?: ArrivalWork;
}

export interface ArrivalWork {
  receive(volid: string, source: MoveSource): Promise<string>;
  start(wanted?: WantedTransfer, key?: string): Promise<TakenRam>;
}

export const RECEIVE_OPERATION = "qmtunnel";

/** In memory: what a crash of ours loses, the other end notices and gives up. */
export class Arrivals {
  readonly #open = new Map<string, Arrival>();

  find(moveId: string): Arrival | undefined {
    return this.#open.get(moveId);
  }

  require({ id, vmid }: GuestMove): Arrival {
    const arrival = this.find(id);
    if (arrival === undefined) throw missing(`nothing was prepared for VM ${vmid}`);
    return arrival;
  }

  receive(move: GuestMove, volid: string, source: MoveSource): Promise<string> {
    return this.#workOf(move).receive(volid, source);
  }

  start(move: GuestMove, wanted?: WantedTransfer, key?: string): Promise<TakenRam> {
    return this.#workOf(move).start(wanted, key);
  }

  #workOf(move: GuestMove): ArrivalWork {
    const { work } = this.require(move);
    if (work === undefined) throw conflict(`VM ${move.vmid} is not ready to come`);
    return work;
  }

  async prepare(
    engine: OperationEngine,
    move: GuestMove,
    offer: MoveOffer,
    gone: AbortSignal,
  ): Promise<MoveAnswer> {
    const { vmid, id } = move;
    if (this.#open.has(id)) throw conflict(`the move of VM ${vmid} has begun already`);
    const ready = Promise.withResolvers<MoveAnswer>();
    ready.promise.catch((err: unknown) => ignore(err, "told to who asked"));
    this.#open.set(id, { move, offer, gone, ready, volumes: {} });
    try {
      const { upid } = await engine.submit({
        type: RECEIVE_OPERATION,
        resources: [vmKey(vmid)],
        args: { vmid, moveId: id, from: move.from.node },
        actor: "root@pam",
        subject: String(vmid),
      });
      void engine.wait(upid).then(({ exitStatus, state }) => {
        this.#open.delete(id);
        ready.reject(conflict(`VM ${vmid} cannot come here: ${exitStatus ?? state}`));
      });
      return await ready.promise;
    } catch (err) {
      this.#open.delete(id);
      throw err;
    }
  }
}
