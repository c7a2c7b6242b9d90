// The cluster's backup jobs: create, change, remove, show, and what they cover.
import { alreadyThere, missing, parameterError, refused } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import {
  backupJobCollection,
  changedJob,
  includedClusters,
  includedGuests,
  jobWithoutGuest,
  newJob,
  calendarOf,
  shownJob,
  type BackupJob,
  type JobOptions,
} from "@gpve/domain/backup/backup-job.ts";
import { guestKinds } from "@gpve/domain/guest/guest-kinds.ts";
import { currentSection, guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import { nextEvent } from "@gpve/domain/calendar/next-event.ts";
import type { ZoneOffset } from "@gpve/domain/calendar/time-zone.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import { readPropertyString } from "@gpve/domain/schema/property-string.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { backupRunCollection, runIdsOf } from "./backup-runs.ts";

export interface BackupJobsDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly zone: () => ZoneOffset;
  readonly newId: () => string;
  /** Guests of a pool; undefined = no such pool. */
  readonly poolMembers: (pool: string) => readonly number[] | undefined;
}

const ONLY_ROOT = ["tmpdir", "dumpdir", "script"];
const COSTS_OTHERS = ["bwlimit", "ionice", "performance"];

export class BackupJobs {
  readonly #deps: BackupJobsDeps;

  constructor(deps: BackupJobsDeps) {
    this.#deps = deps;
  }

  /** In the order they were made. */
  jobs(): readonly BackupJob[] {
    return this.#deps.records
      .collection(backupJobCollection)
      .list()
      .toSorted((a, b) => a.createRevision - b.createRevision)
      .map(({ value }) => value);
  }

  list(): Record<string, unknown>[] {
    return this.jobs().map((job) => this.#shown(job));
  }

  get(id: string): Record<string, unknown> {
    return this.#shown(this.#find(id));
  }

  async create(given: JobOptions & { readonly id?: string }, ctx: RequestContext): Promise<void> {
    const { id = this.#deps.newId(), ...options } = given;
    this.#checkChange(options, [], ctx);
    if (options["dumpdir"] === undefined) requireAllocate(ctx, options["storage"] ?? "local");
    const job = newJob(id, options, this.#now());
    await this.#deps.records.transact((tx) => {
      if (tx.get(backupJobCollection, id) !== undefined) throw alreadyThere(`Job '${id}' already exists\n`);
      tx.put(backupJobCollection, id, job);
    });
  }

  async update(id: string, given: JobOptions, remove: readonly string[], ctx: RequestContext): Promise<void> {
    if (Object.keys(given).length === 0 && remove.length === 0) throw refused("no options specified\n");
    this.#checkChange(given, remove, ctx);
    if (given["storage"] !== undefined) requireAllocate(ctx, given["storage"]);
    else if (remove.includes("storage")) requireAllocate(ctx, "local");
    await this.#deps.records.transact((tx) => {
      const job = tx.get(backupJobCollection, id)?.value;
      if (job === undefined) throw noSuchJob(id);
      tx.put(backupJobCollection, id, changedJob(job, given, remove, this.#now()));
    });
  }

  async remove(id: string): Promise<void> {
    await this.#deps.records.transact((tx) => {
      if (tx.get(backupJobCollection, id) === undefined) throw noSuchJob(id);
      removeJob(tx, id);
    });
  }

  included(job: BackupJob): ReturnType<typeof includedGuests> {
    return includedGuests(job, this.#guests(), (pool) => this.#deps.poolMembers(pool) ?? []);
  }

  clusters(job: BackupJob): readonly VirtualClusterRecord[] {
    return includedClusters(job, valuesOf(this.#deps.records, vclusterCollection));
  }

  /** The guests of a job and their volumes, as a tree. Guests the caller may not see are left out. */
  includedVolumes(id: string, ctx: RequestContext): Record<string, unknown> {
    const guests = new Map(this.#guests().map((guest) => [guest.vmid, guest]));
    const children = this.included(this.#find(id))
      .filter(({ vmid }) => ctx.access.has(`/vms/${vmid}`, ["VM.Audit"]))
      .map(({ vmid }) => {
        const guest = guests.get(vmid);
        return guest === undefined ? { id: vmid, type: "unknown", leaf: 1 } : this.#branch(guest);
      });
    return { children };
  }

  /** Guests that no job takes. */
  notBackedUp(ctx: RequestContext): Record<string, unknown>[] {
    const taken = new Set(this.jobs().flatMap((job) => this.included(job).map(({ vmid }) => vmid)));
    return this.#guests()
      .filter(({ vmid }) => !taken.has(vmid) && ctx.access.has(`/vms/${vmid}`, ["VM.Audit"]))
      .toSorted((a, b) => a.vmid - b.vmid)
      .map(({ vmid, type, summary }) => ({ vmid, type, name: summary.name }));
  }

  #guests(): readonly GuestRecord[] {
    return valuesOf(this.#deps.records, guestCollection);
  }

  #branch(guest: GuestRecord): Record<string, unknown> {
    const { vmid, type, summary } = guest;
    const volumes = guestKinds[type].backupVolumes(currentSection(guest.conf));
    const children = volumes.map(({ key, volume, included, reason }) => ({
      id: `${vmid}:${key}`,
      name: volume,
      included,
      reason,
      leaf: 1,
    }));
    return { id: vmid, type, name: summary.name, children, leaf: children.length === 0 ? 1 : 0 };
  }

  #shown(job: BackupJob): Record<string, unknown> {
    const event = calendarOf(job);
    const next = event === undefined ? undefined : nextEvent(event, this.#now(), this.#deps.zone());
    return { ...shownJob(job), ...given({ "next-run": next }) };
  }

  #checkChange(given: JobOptions, remove: readonly string[], ctx: RequestContext): void {
    const { pool } = given;
    if (typeof pool === "string") {
      if (this.#deps.poolMembers(pool) === undefined) throw missing(`pool '${pool}' does not exist\n`);
      ctx.access.require(`/pool/${pool}`, ["VM.Backup"]);
    }
    if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
    const touched = [...Object.keys(given), ...remove];
    const forRoot = ONLY_ROOT.find((key) => touched.includes(key));
    if (forRoot !== undefined) throw parameterError({ [forRoot]: "Only root may set this option." });
    if (COSTS_OTHERS.some((key) => touched.includes(key))) ctx.access.require("/", ["Sys.Modify"]);
    const { fleecing } = given;
    const storage =
      typeof fleecing === "string" ? readPropertyString("backup-fleecing", fleecing)["storage"] : "";
    if (typeof storage === "string" && storage !== "")
      ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  }

  #find(id: string): BackupJob {
    const job = this.#deps.records.collection(backupJobCollection).get(id)?.value;
    if (job === undefined) throw noSuchJob(id);
    return job;
  }

  #now(): number {
    return Math.floor(this.#deps.clock.now() / 1000);
  }
}

/** A guest is gone for good: a job that was about it alone goes with it. */
export function removeGuestFromJobs(tx: Tx, vmid: number): void {
  for (const { id, value } of tx.list(backupJobCollection)) {
    const left = jobWithoutGuest(value, vmid);
    if (left === undefined) removeJob(tx, id);
    else if (JSON.stringify(left) !== JSON.stringify(value)) tx.put(backupJobCollection, id, left);
  }
}

function removeJob(tx: Tx, id: string): void {
  tx.delete(backupJobCollection, id);
  for (const run of runIdsOf(tx.list(backupRunCollection), id)) tx.delete(backupRunCollection, run);
}

function requireAllocate(ctx: RequestContext, storage: unknown): void {
  if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
  ctx.access.require(`/storage/${String(storage)}`, ["Datastore.Allocate"]);
}

function noSuchJob(id: string): Error {
  return parameterError({ id: `No such job '${id}'` });
}
