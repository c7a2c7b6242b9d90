// What quotas look at, read from memory: members of tenants, what runs, which reservations still stand.
//
// All of it comes from one cache that shows the store's changes in their order. A reservation goes only after the record
// that takes its place was written, so whoever sees it gone sees that record.
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { claimOf } from "@gpve/domain/quota/guest-demand.ts";
import { isWithin, tenantsOf, type Quota } from "@gpve/domain/quota/quota.ts";
import { leftOf, type Reservation, type ReservationFacts } from "@gpve/domain/quota/reservation.ts";
import { usageOf, usesOf, type Member } from "@gpve/domain/quota/usage.ts";
import type { Charge } from "@gpve/domain/quota/verdict.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { taskRecordId, type TaskRecord } from "@gpve/domain/task/task-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Entry, Records } from "@gpve/store/records/port.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { cacheReader, type Reader } from "../v1/adapter.ts";
import { tenantOf } from "../v1/tenant-of.ts";
import { quotasDef, reservationsDef } from "./quota-records.ts";

export interface QuotaViewDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Pick<Clock, "now">;
  /** `server#process`. */
  readonly by: string;
}

export class QuotaView {
  readonly #deps: QuotaViewDeps;
  readonly #reader: Reader;
  /** By the list itself, which is the same one until a guest changes. */
  readonly #wanting = new WeakMap<readonly Entry<GuestRecord>[], readonly GuestRecord[]>();
  readonly #open = new WeakMap<readonly Entry<TaskRecord>[], ReadonlySet<string>>();

  constructor(deps: QuotaViewDeps) {
    this.#deps = deps;
    this.#reader = cacheReader(deps.records);
  }

  guest(vmid: number): GuestRecord | undefined {
    return this.#reader.get(guestCollection, String(vmid))?.value;
  }

  guestsOf(node: string): readonly GuestRecord[] {
    return this.#reader.list(guestCollection).flatMap(({ value }) => (value.node === node ? [value] : []));
  }

  poolOf(guest: GuestRecord): string | undefined {
    return guest.wantedPool ?? tenantOf(this.#reader, guest.vmid);
  }

  /** Those that bound what is in the pool. */
  quotasOn(pool: string | undefined): readonly Quota[] {
    const tenants = pool === undefined ? [] : tenantsOf(pool);
    return this.quotas().filter(({ tenant }) => tenants.includes(tenant));
  }

  quotas(): readonly Quota[] {
    return this.#reader.list(quotasDef).map(({ value }) => value);
  }

  /** Of the tenant and all below. */
  members(tenant: string): readonly Member[] {
    const pools = this.#reader.list(poolsDef).filter(({ id }) => isWithin(tenant, id));
    const found = new Map<number, Member>();
    for (const { id, value } of pools)
      for (const vmid of value.vms) {
        const guest = this.guest(vmid);
        if (guest !== undefined) found.set(vmid, this.#member(guest, id));
      }
    for (const guest of this.#wantingGuests())
      if (isWithin(tenant, guest.wantedPool ?? ""))
        found.set(guest.vmid, this.#member(guest, guest.wantedPool ?? ""));
    return [...found.values()];
  }

  /** A guest as it would be in a pool. */
  memberIn(vmid: number, pool: string): Member | undefined {
    const guest = this.guest(vmid);
    return guest === undefined ? undefined : this.#member(guest, pool);
  }

  /** What of all reservations stands. */
  reservations(): readonly Reservation[] {
    const facts = this.facts();
    return this.#reader.list(reservationsDef).flatMap(({ value }) => leftOf(value, facts) ?? []);
  }

  usage(quota: Quota): Charge {
    return usageOf(quota, usesOf(this.members(quota.tenant), this.reservations()));
  }

  facts(): ReservationFacts {
    const { board, clock, by } = this.#deps;
    return {
      now: clock.now(),
      by,
      taskEnd: (upid) => {
        const task = this.#reader.get(taskRecords, taskRecordId(upid) ?? "")?.value;
        return task === undefined ? undefined : { endtime: task.endtime };
      },
      isWorkedOn: (node, vmid) => this.#openTasks().has(`${node} ${vmid}`),
      isThere: (vmid) => this.guest(vmid) !== undefined,
      told: (node, vmid) => {
        const report = board.get(node)?.report;
        if (report === undefined) return undefined;
        const running = report.guests.some((guest) => guest.vmid === vmid && guest.status === "running");
        return { at: report.at, running };
      },
    };
  }

  /** A node that has told nothing yet may run anything. */
  isRunning({ node, vmid, summary }: GuestRecord): boolean {
    if (summary.template) return false;
    const report = this.#deps.board.get(node)?.report;
    if (report === undefined) return true;
    return report.guests.some((guest) => guest.vmid === vmid && guest.status === "running");
  }

  #member(guest: GuestRecord, pool: string): Member {
    const { vmid, madeBy } = guest;
    return { vmid, pool, ...claimOf(guest), running: this.isRunning(guest), madeBy };
  }

  #wantingGuests(): readonly GuestRecord[] {
    const all = this.#reader.list(guestCollection);
    let wanting = this.#wanting.get(all);
    if (wanting === undefined) {
      wanting = all.flatMap(({ value }) => (value.wantedPool === undefined ? [] : [value]));
      this.#wanting.set(all, wanting);
    }
    return wanting;
  }

  #openTasks(): ReadonlySet<string> {
    const all = this.#reader.list(taskRecords);
    let open = this.#open.get(all);
    if (open === undefined) {
      const tasks = all.flatMap(({ value }) =>
        value.endtime === undefined ? (taskFromUpid(value.upid) ?? []) : [],
      );
      open = new Set(tasks.map(({ node, id }) => `${node} ${id}`));
      this.#open.set(all, open);
    }
    return open;
  }
}
