// What HA asks of the records about guests.
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { resourceCollection, sidOf } from "@gpve/domain/ha/collections.ts";
import { whyNotOn } from "@gpve/domain/ha/movable.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import type { Records } from "@gpve/store/records/port.ts";

export class HaGuests {
  readonly #records: () => Records;
  readonly #node: string;

  constructor(records: () => Records, node: string) {
    this.#records = records;
    this.#node = node;
  }

  sidOf = (vmid: number): string => {
    const guest = this.#get(vmid);
    return guest === undefined ? `vm:${vmid}` : sidOf(guest);
  };

  isHere = (vmid: number): boolean => this.#get(vmid)?.node === this.#node;

  /** Why its disks cannot be reached from there; undefined = they can. */
  notMovable = (vmid: number, target: string): string | undefined =>
    whyNotOn(this.#get(vmid), valuesOf(this.#records(), storageCollection), target);

  areUnmanaged = (): boolean => this.#records().collection(resourceCollection).list().length === 0;

  #get(vmid: number): GuestRecord | undefined {
    return this.#records().collection(guestCollection).get(String(vmid))?.value;
  }
}
