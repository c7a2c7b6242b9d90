// What a node knows of the cluster's guests, of all kinds and wherever they are, and of what they go by.
import { alreadyThere, missing } from "@gpve/domain/request/failures.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { datacenterOptions } from "@gpve/domain/cluster/datacenter-options.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { guestKinds } from "@gpve/domain/guest/guest-kinds.ts";
import { guestLabel } from "@gpve/domain/guest/guest-words.ts";
import type { Records } from "@gpve/store/records/port.ts";

export interface ClusterGuestsDeps {
  readonly node: string;
  /** Throws store.unavailable while no server is in reach. */
  readonly records: () => Records;
}

export class ClusterGuests {
  readonly #deps: ClusterGuestsDeps;

  constructor(deps: ClusterGuestsDeps) {
    this.#deps = deps;
  }

  /** This node. */
  get node(): string {
    return this.#deps.node;
  }

  /** Whether any guest of the cluster has the id. */
  isTaken(vmid: number): boolean {
    return this.#deps.records().collection(guestCollection).get(String(vmid)) !== undefined;
  }

  /** Who has the id, anywhere in the cluster. */
  ownerOf(vmid: number): { readonly kind: string; readonly node: string } | undefined {
    const record = this.#deps.records().collection(guestCollection).get(String(vmid))?.value;
    if (record === undefined) return undefined;
    return { kind: guestKinds[record.type].noun, node: record.node };
  }

  /** Throws when any guest of the cluster has the id. */
  requireFree(vmid: number): void {
    const taken = this.#deps.records().collection(guestCollection).get(String(vmid))?.value;
    if (taken !== undefined) throw alreadyExists(vmid, taken);
  }

  /** Throws PVE's text. */
  requirePool(pool: string | undefined): void {
    if (pool === undefined || this.#deps.records().collection(poolsDef).get(pool) !== undefined) return;
    throw missing(`pool '${pool}' does not exist`);
  }

  /** An option of the datacenter as it is stored; undefined = its default. */
  datacenterOption(name: string): string | undefined {
    const value = datacenterOptions(this.#deps.records())[name];
    return typeof value === "string" ? value : undefined;
  }

  /** Guests of the cluster with tags. */
  tagsInUse(): readonly { readonly vmid: number; readonly tags: string }[] {
    return this.#deps
      .records()
      .collection(guestCollection)
      .list()
      .flatMap(({ value: { vmid, summary } }) =>
        summary.tags === undefined ? [] : [{ vmid, tags: summary.tags }],
      );
  }

  /** Guests of the whole cluster and where they are. */
  everywhere(): readonly { readonly vmid: number; readonly node: string }[] {
    return this.#deps
      .records()
      .collection(guestCollection)
      .list()
      .map(({ value }) => ({ vmid: value.vmid, node: value.node }));
  }
}

export function alreadyExists(vmid: number, taken: GuestRecord): AppError {
  return alreadyThere(
    `unable to create VM ${vmid} - ${guestLabel(taken)} already exists on node '${taken.node}'`,
  );
}
