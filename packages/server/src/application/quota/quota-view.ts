// What quotas look at, read from memory: members of tenants, what runs, which reservations still stand.
//
// All of it comes from one cache that shows the store's changes in their order. A reservation goes only after the record
// that takes its place was written, so whoever sees it gone sees that record.
import { given } from "@gpve/contracts/given.ts";
import { clusterBackupCollection, clusterBackupTotals } from "@gpve/domain/backup/cluster-backups.ts";
import {
  leftBackupCollection,
  seenBackupCollection,
  stillLeft,
  type LeftBackups,
} from "@gpve/domain/backup/left-backups.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { resourceCollection, sidOf } from "@gpve/domain/ha/collections.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { heldDemand } from "@gpve/domain/quota/cluster-demand.ts";
import { claimOf } from "@gpve/domain/quota/guest-demand.ts";
import { isWithin, tenantsOf, type Quota } from "@gpve/domain/quota/quota.ts";
import { leftOf, type Reservation, type ReservationFacts } from "@gpve/domain/quota/reservation.ts";
import { usageOf, usesOf, type Member } from "@gpve/domain/quota/usage.ts";
import type { Charge } from "@gpve/domain/quota/verdict.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { taskRecordId, type TaskRecord } from "@gpve/domain/task/task-record.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { volumeBytesOf } from "../vcluster/volumes/volume-bytes.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Entry, Records } from "@gpve/store/records/port.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { cacheReader, type Reader } from "../v1/adapter.ts";
import { tenantOf } from "../v1/tenant-of.ts";
import { schedulingDef } from "../scheduler/placement-records.ts";
import { quotasDef, reservationsDef } from "./quota-records.ts";

/** No guest and no virtual cluster: no id that one of them has. */
const OWNLESS_ID = -1_000_000_000;

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

  poolMembers(pool: string): readonly number[] {
    return this.#reader.get(poolsDef, pool)?.value.vms ?? [];
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
    return [...found.values(), ...this.#vclusters(tenant), ...this.#ownless(tenant)];
  }

  /** Each counts as one, with what its workers may use: its pods are bounded by those; and with what its volumes may have, or have. */
  #vclusters(tenant: string): readonly Member[] {
    return this.#reader
      .list(vclusterCollection)
      .filter(({ value }) => isWithin(tenant, value.tenant))
      .map(({ value }, index) => ({
        // No guest: no id that a guest could have.
        vmid: -1 - index,
        pool: value.tenant,
        demand: heldDemand(value, volumeBytesOf(this.#deps.board, value)),
        tags: [],
        running: true,
      }));
  }

  /** Archives that no guest's record tells of: of guests that are gone, and of virtual clusters. */
  #ownless(tenant: string): readonly Member[] {
    const left = this.leftBackups().map(({ value, count }) => ({ pool: value.pool, backups: count }));
    const seen = this.#deps.board
      .list()
      .flatMap(({ node }) => this.#reader.list(clusterBackupCollection(node)).map(({ value }) => value));
    const clusters = clusterBackupTotals(seen).map((row) => ({ pool: row.tenant, backups: row.backups }));
    return [...left, ...clusters]
      .filter(({ pool }) => isWithin(tenant, pool))
      .map(({ pool, backups }, index) => ({
        vmid: OWNLESS_ID - index,
        pool,
        demand: { backups },
        tags: [],
        running: false,
      }));
  }

  /** With how many of them their node still sees. */
  leftBackups(): readonly (Entry<LeftBackups> & { readonly count: number })[] {
    return this.#reader.list(leftBackupCollection).map((entry) => ({
      ...entry,
      count: stillLeft(
        entry.value,
        this.#reader.get(seenBackupCollection(entry.value.node), entry.id)?.value,
      ),
    }));
  }

  /** A guest as it would be in a pool. */
  memberIn(vmid: number, pool: string): Member | undefined {
    const guest = this.guest(vmid);
    return guest === undefined ? undefined : this.#member(guest, pool);
  }

  /** As its spec.scheduling says; undefined = it says none. */
  priorityOf(vmid: number): number | undefined {
    return this.#reader.get(schedulingDef, String(vmid))?.value.rules.priority;
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
  isRunning(guest: GuestRecord): boolean {
    const { node, vmid, summary } = guest;
    if (summary.template) return false;
    // HA starts it whenever it is not: there is nobody to ask then.
    if (this.#reader.get(resourceCollection, sidOf(guest))?.value.state === "started") return true;
    const report = this.#deps.board.get(node)?.report;
    if (report === undefined) return true;
    return report.guests.some((guest) => guest.vmid === vmid && guest.status === "running");
  }

  #member(guest: GuestRecord, pool: string): Member {
    const { vmid, madeBy } = guest;
    const priority = this.priorityOf(vmid);
    return { vmid, pool, ...claimOf(guest), running: this.isRunning(guest), ...given({ priority }), madeBy };
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
      // One about no guest may be about several: a backup of them.
      open = new Set(tasks.map(({ node, id }) => `${node} ${id === "" ? 0 : id}`));
      this.#open.set(all, open);
    }
    return open;
  }
}
