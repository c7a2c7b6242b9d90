// The cluster's replication jobs: create, change, remove, show, and how each is doing.
import { given } from "@gpve/contracts/given.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import {
  changedReplicationJob,
  newReplicationJob,
  replicationCollection,
  shownReplicationJob,
  type ReplicationJob,
  type ReplicationOptions,
} from "@gpve/domain/replication/replication-job.ts";
import {
  noReplicationYet,
  replicationStateCollection,
  replicationStatus,
  type ReplicationState,
} from "@gpve/domain/replication/replication-state.ts";
import type { ZoneOffset } from "@gpve/domain/calendar/time-zone.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { alreadyThere, conflict, missing, parameterError, refused } from "@gpve/domain/request/failures.ts";
import { isDisabled, servesNode, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { localVolumes } from "@gpve/domain/vm/migrate/movable.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { digestOf, requireDigestOf } from "../digest.ts";

export interface ReplicationJobsDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly zone: () => ZoneOffset;
  readonly knowsNode: (node: string) => boolean;
  readonly storages: () => readonly StorageDefinition[];
  readonly config: (guest: GuestRecord) => VmConfig;
}

export class ReplicationJobs {
  readonly #deps: ReplicationJobsDeps;

  constructor(deps: ReplicationJobsDeps) {
    this.#deps = deps;
  }

  /** In the order of guests. */
  jobs(): readonly ReplicationJob[] {
    return valuesOf(this.#deps.records, replicationCollection).toSorted(
      (a, b) => a.guest - b.guest || a.jobnum - b.jobnum,
    );
  }

  stateOf(id: string): ReplicationState {
    return this.#deps.records.collection(replicationStateCollection).get(id)?.value ?? noReplicationYet;
  }

  /** The node that has the guest; undefined = there is no such guest. */
  sourceOf({ guest }: ReplicationJob): string | undefined {
    return this.#guest(guest)?.node;
  }

  list(ctx: RequestContext): Record<string, unknown>[] {
    return this.jobs()
      .filter(({ guest }) => ctx.access.has(`/vms/${guest}`, ["VM.Audit"]))
      .map((job) => shownReplicationJob(job, this.sourceOf(job)));
  }

  get(id: string, ctx: RequestContext): Record<string, unknown> {
    const job = this.#seen(id, ctx);
    return { ...shownReplicationJob(job, this.sourceOf(job)), digest: digestOf(job) };
  }

  async create(
    id: string,
    target: string,
    options: ReplicationOptions & { readonly source?: string | undefined },
    ctx: RequestContext,
  ): Promise<void> {
    const { source, ...rest } = options;
    const job = newReplicationJob(id, target, rest, this.#now());
    ctx.access.require(`/vms/${job.guest}`, ["VM.Replicate"]);
    this.#requireReplicable(job, source);
    await this.#deps.records.transact((tx) => {
      if (tx.get(replicationCollection, id) !== undefined)
        throw alreadyThere(`replication job '${id}' already exists`);
      const others = tx.list(replicationCollection).map(({ value }) => value);
      if (others.some((each) => each.guest === job.guest && each.target === target))
        throw alreadyThere(
          `replication job for guest '${job.guest}' to target 'local/${target}' already exists`,
        );
      tx.put(replicationCollection, id, job);
    });
  }

  async update(
    id: string,
    options: ReplicationOptions & { readonly source?: string | undefined },
    change: { readonly remove: readonly string[]; readonly digest: string | undefined },
    ctx: RequestContext,
  ): Promise<void> {
    const { source, ...rest } = options;
    const guest = this.#changed(id, ctx).guest;
    if (source !== undefined) this.#requireSource(guest, source);
    await this.#deps.records.transact((tx) => {
      const job = tx.get(replicationCollection, id)?.value;
      if (job === undefined) throw noSuchJob(id);
      requireDigestOf(job, change.digest);
      tx.put(replicationCollection, id, changedReplicationJob(job, rest, change.remove, this.#now()));
    });
  }

  /** Not at once: the copy goes first, or stays when `keep` says so. `force` forgets the job and leaves all as it is. */
  async remove(id: string, how: { keep: boolean; force: boolean }, ctx: RequestContext): Promise<void> {
    if (how.keep && how.force) throw parameterError({ keep: "conflicts with parameter 'force'" });
    if (this.#deps.records.collection(replicationCollection).get(id) === undefined)
      throw missing(`no such job '${id}'`);
    this.#changed(id, ctx);
    await this.#deps.records.transact((tx) => {
      const job = tx.get(replicationCollection, id)?.value;
      if (job === undefined) return;
      if (how.force) forgetJob(tx, id);
      else markRemoved(tx, job, how.keep);
    });
  }

  status(node: string, guest: number | undefined, ctx: RequestContext): Record<string, unknown>[] {
    return this.jobs()
      .filter((job) => this.sourceOf(job) === node && (guest === undefined || job.guest === guest))
      .filter((job) => ctx.access.has(`/vms/${job.guest}`, ["VM.Audit"]))
      .map((job) => this.#status(job));
  }

  statusOf(node: string, id: string, ctx: RequestContext): Record<string, unknown> {
    return this.#status(this.#on(node, this.#seen(id, ctx)));
  }

  /** The task that ran last, or runs; undefined = none yet. */
  lastRun(node: string, id: string, ctx: RequestContext): { upid: string; node: string } | undefined {
    const job = this.#find(id);
    if (!ctx.access.has(`/nodes/${node}`, ["Sys.Audit"]))
      ctx.access.require(`/vms/${job.guest}`, ["VM.Audit"]);
    this.#on(node, job);
    const { run, last } = this.stateOf(id);
    return run?.upid === undefined ? last : { upid: run.upid, node: run.node };
  }

  async scheduleNow(node: string, id: string, ctx: RequestContext): Promise<void> {
    this.#on(node, this.#changed(id, ctx));
    await this.#deps.records.transact((tx) => {
      const state = tx.get(replicationStateCollection, id)?.value ?? noReplicationYet;
      tx.put(replicationStateCollection, id, { ...state, isWanted: true });
    });
  }

  #status(job: ReplicationJob): Record<string, unknown> {
    const guest = this.#guest(job.guest);
    const about = { source: guest?.node ?? "", vmtype: guest?.type ?? VM_TYPE, zone: this.#deps.zone() };
    return replicationStatus(job, this.stateOf(job.id), about);
  }

  #on(node: string, job: ReplicationJob): ReplicationJob {
    if (this.sourceOf(job) !== node) throw missing(`no such replication job '${job.id}' on node '${node}'`);
    return job;
  }

  #requireReplicable(job: ReplicationJob, source: string | undefined): void {
    const guest = this.#guest(job.guest);
    if (guest === undefined) throw missing(`Guest '${job.guest}' does not exist.`);
    if (!this.#deps.knowsNode(job.target)) throw missing(`Target '${job.target}' does not exist.`);
    if (guest.type !== VM_TYPE) throw refused(`guest '${job.guest}' is no VM: only VMs can be replicated`);
    if (source !== undefined) this.#requireSource(job.guest, source);
    if (guest.node === job.target) throw refused("Source and target must not be identical");
    const definitions = this.#deps.storages();
    const local = localVolumes(this.#deps.config(guest), definitions).filter(
      ({ isCdrom, isCurrent, key }) => !isCdrom && isCurrent && !/^(?:unused|vmstate)/.test(key),
    );
    if (local.length === 0) throw refused("No replicatable volumes found");
    for (const { storage, volid } of local) {
      const definition = definitions.find((each) => each.storage === storage);
      if (definition === undefined || isDisabled(definition) || !servesNode(definition, job.target))
        throw refused(`storage '${storage}' of volume '${volid}' is not available on node '${job.target}'`);
    }
  }

  #requireSource(guest: number, source: string): void {
    const node = this.#guest(guest)?.node;
    if (node !== source)
      throw refused(`Source '${source}' does not match current node of guest '${guest}' (${node ?? "none"})`);
  }

  #guest(vmid: number): GuestRecord | undefined {
    return this.#deps.records.collection(guestCollection).get(String(vmid))?.value;
  }

  #seen(id: string, ctx: RequestContext): ReplicationJob {
    const job = this.#find(id);
    ctx.access.require(`/vms/${job.guest}`, ["VM.Audit"]);
    return job;
  }

  #changed(id: string, ctx: RequestContext): ReplicationJob {
    const job = this.#find(id);
    ctx.access.require(`/vms/${job.guest}`, ["VM.Replicate"]);
    return job;
  }

  #find(id: string): ReplicationJob {
    const job = this.#deps.records.collection(replicationCollection).get(id)?.value;
    if (job === undefined) throw noSuchJob(id);
    return job;
  }

  #now(): number {
    return Math.floor(this.#deps.clock.now() / 1000);
  }
}

/** Before the guest is deleted without what is known of it. PVE's text. */
export function requireNoReplication(records: Records, vmid: number): void {
  const job = valuesOf(records, replicationCollection).find(({ guest }) => guest === vmid);
  if (job !== undefined)
    throw conflict(`There is a replication job '${job.id}' for guest '${vmid}' - Please remove that first.`);
}

export function forgetJob(tx: Tx, id: string): void {
  tx.delete(replicationCollection, id);
  if (tx.get(replicationStateCollection, id) !== undefined) tx.delete(replicationStateCollection, id);
}

export function markRemoved(tx: Tx, job: ReplicationJob, keep: boolean): void {
  tx.put(replicationCollection, job.id, { ...job, remove_job: keep ? "local" : "full" });
  const state = tx.get(replicationStateCollection, job.id)?.value;
  if (state === undefined) return;
  // What failed before says nothing about the removal.
  const { error: _error, ...rest } = state;
  tx.put(replicationStateCollection, job.id, { ...rest, failCount: 0, ...given({ isWanted: undefined }) });
}

/** A guest is gone for good, and its copies with it. */
export function removeGuestFromReplication(tx: Tx, vmid: number): void {
  for (const { value } of tx.list(replicationCollection))
    if (value.guest === vmid && value.remove_job === undefined) markRemoved(tx, value, false);
}

/** A guest moved to the node that kept its copy: from now on the one that it left keeps one. */
export function turnReplication(
  tx: Tx,
  vmid: number,
  way: { readonly from: string; readonly to: string },
): void {
  for (const { id, value } of tx.list(replicationCollection))
    if (value.guest === vmid && value.target === way.to)
      tx.put(replicationCollection, id, { ...value, target: way.from });
}

function noSuchJob(id: string): Error {
  return missing(`no such replication job '${id}'`);
}
