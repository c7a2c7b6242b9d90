// A guest that runs here while the cluster's record names another node: this one was cut off when its guests went on
// elsewhere, and has come back. Its record decides who writes, so what runs here is ended, at once and without asking it.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import type { Records } from "@gpve/store/records/port.ts";

export interface DisownedGuestPorts {
  readonly node: string;
  readonly processes: {
    list(): readonly GuestProcess[];
    get(id: string): GuestProcess | undefined;
  };
  /** Throws store.unavailable while no server is in reach. */
  readonly records: () => Records;
  /** Runs in the guest's queue; rejects while a move of it is under way, which makes an end of its own. */
  readonly withGuest: (vmid: number, work: () => Promise<void>) => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

const LOOK_EVERY_MS = 1_000;

export class DisownedGuests {
  readonly #ports: DisownedGuestPorts;
  readonly #owners = new Map<string, string>();

  constructor(ports: DisownedGuestPorts) {
    this.#ports = ports;
  }

  /** The node that has a guest which is ended here for that; undefined = it is ended for other reasons. */
  ownerOf(id: string): string | undefined {
    return this.#owners.get(id);
  }

  /** Until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#ports;
    await every(LOOK_EVERY_MS, { clock, signal }, async () => {
      try {
        await this.look();
      } catch (err) {
        if (!isAppError(err, "store.unavailable"))
          log.error({ err: messageOf(err) }, "looking whose the guests are that run here failed");
      }
    });
  }

  async look(): Promise<void> {
    const { processes } = this.#ports;
    for (const { id } of processes.list()) {
      // Helpers have names, and end with their guest.
      if (!/^\d+$/.test(id) || this.#otherOwner(id) === undefined) continue;
      try {
        // What is in memory here may be older than what a server knows: a guest that has just come must not be taken for
        // one that has gone.
        await this.#ports.records().fresh();
        await this.#ports.withGuest(Number(id), () => this.#end(id));
      } catch (err) {
        if (!isAppError(err, "resource.busy")) throw err;
        ignore(err, "what is being done with it now decides; then it is looked at again");
      }
    }
  }

  async #end(id: string): Promise<void> {
    const { node, processes, log } = this.#ports;
    const owner = this.#otherOwner(id);
    const process = processes.get(id);
    if (owner === undefined || process === undefined || process.hasExited) return;
    log.warn(
      { resource: process.label, node, owner },
      `${process.label} runs here but is node '${owner}''s now: it is ended here, so that its disks have one writer`,
    );
    this.#owners.set(id, owner);
    try {
      await process.kill();
    } finally {
      this.#owners.delete(id);
    }
  }

  /** A guest without a record is nobody's: nothing says that another node writes for it. */
  #otherOwner(id: string): string | undefined {
    const owner = this.#ports.records().collection(guestCollection).get(id)?.value.node;
    return owner === this.#ports.node ? undefined : owner;
  }
}
