// VM configurations of this node, kept in the cluster's store. Every change is compare-and-swap on the stored text.
import { given } from "@gpve/contracts/given.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { datacenterOptions } from "@gpve/domain/cluster/datacenter-options.ts";
import { cpuModelCollection } from "@gpve/domain/vm/host/custom-cpu-model.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import {
  goneGuestCollection,
  guestCollection,
  guestRecord,
  type GuestRecord,
  type Microvm,
} from "@gpve/domain/guest/guest-record.ts";
import { guestKinds } from "@gpve/domain/guest/guest-kinds.ts";
import { guestLabel, noSuchGuest } from "@gpve/domain/guest/guest-words.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { unsaidSizes, vmVolumes } from "@gpve/domain/vm/vm-demand.ts";
import { writeVmConfig } from "@gpve/domain/vm/config/write-config.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

const SERVER_PATIENCE_MS = 5_000;
const SERVER_POLL_MS = 50;

export interface VmConfigsDeps {
  readonly node: string;
  /** Throws store.unavailable while no server is in reach. */
  readonly records: () => Records;
  readonly sha1Hex: (text: string) => string;
}

/** What a VM has besides its configuration. */
export interface MadeVm {
  /** Servers put it there; see `waitForPool`. */
  readonly pool?: string | undefined;
  readonly microvm?: Microvm | undefined;
  /** The request that asked for it. Servers let a node make only what they have asked it for. */
  readonly madeBy?: string | undefined;
}

function originOf({ pool, madeBy }: MadeVm): Pick<GuestRecord, "wantedPool" | "madeBy"> {
  return {
    ...given({ wantedPool: pool, madeBy }),
  };
}

export class VmConfigs {
  readonly #deps: VmConfigsDeps;
  /** By stored record: a changed guest is another record, so nobody reads an old configuration here. */
  readonly #parsed = new WeakMap<GuestRecord, VmConfig>();

  constructor(deps: VmConfigsDeps) {
    this.#deps = deps;
  }

  /** Whose VMs these are. */
  get node(): string {
    return this.#deps.node;
  }

  /** Throws PVE's text when this node has no such VM. */
  get(vmid: number): VmConfig {
    const record = this.#deps.records().collection(guestCollection).get(String(vmid))?.value;
    return this.#parse(vmid, record);
  }

  /** undefined = it has one of PVE's machines. */
  microvm(vmid: number): Microvm | undefined {
    return this.#deps.records().collection(guestCollection).get(String(vmid))?.value.microvm;
  }

  /** The request that had it made; undefined = not known. */
  madeBy(vmid: number): string | undefined {
    return this.#deps.records().collection(guestCollection).get(String(vmid))?.value.madeBy;
  }

  find(vmid: number): VmConfig | undefined {
    return this.has(vmid) ? this.get(vmid) : undefined;
  }

  has(vmid: number): boolean {
    const record = this.#deps.records().collection(guestCollection).get(String(vmid))?.value;
    return this.#isOurs(record);
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
    throw new AppError("object.not_found", `pool '${pool}' does not exist`, { pveStatus: 500 });
  }

  /** An option of the datacenter as it is stored; undefined = its default. */
  datacenterOption(name: string): string | undefined {
    const value = datacenterOptions(this.#deps.records())[name];
    return typeof value === "string" ? value : undefined;
  }

  /** Whether the cluster has such a CPU model; without `custom-`. */
  hasCpuModel(name: string): boolean {
    return this.#deps.records().collection(cpuModelCollection).get(name) !== undefined;
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

  /** VMIDs of this node's VMs. */
  list(): readonly number[] {
    return this.#deps
      .records()
      .collection(guestCollection)
      .list()
      .flatMap(({ value }) => (this.#isOurs(value) ? [value.vmid] : []));
  }

  /** Guests of the whole cluster and where they are. */
  everywhere(): readonly { readonly vmid: number; readonly node: string }[] {
    return this.#deps
      .records()
      .collection(guestCollection)
      .list()
      .map(({ value }) => ({ vmid: value.vmid, node: value.node }));
  }

  async create(vmid: number, config: VmConfig, made: MadeVm = {}): Promise<void> {
    const { node, records } = this.#deps;
    await records().transact((tx) => {
      const taken = tx.get(guestCollection, String(vmid))?.value;
      if (taken !== undefined) throw alreadyExists(vmid, taken);
      tx.put(
        guestCollection,
        String(vmid),
        guestRecord({
          vmid,
          type: VM_TYPE,
          node,
          conf: writeVmConfig(config),
          ...originOf(made),
          ...given({ microvm: made.microvm }),
        }),
      );
    });
  }

  /** `change` may run several times; what it throws aborts. Returns the configuration as stored. */
  async change(vmid: number, change: (config: VmConfig) => VmConfig): Promise<VmConfig> {
    return this.#deps.records().transact((tx) => this.#changeIn(tx, vmid, change));
  }

  /** The VM becomes another one under its id, of another machine perhaps. */
  async replace(vmid: number, config: VmConfig, made: MadeVm): Promise<void> {
    await this.#deps.records().transact((tx) => this.#changeIn(tx, vmid, () => config, made));
  }

  /** No error when it is gone already: deleting may run again after a crash. */
  async remove(vmid: number, purge = false): Promise<void> {
    await this.#deps.records().transact((tx) => {
      const record = tx.get(guestCollection, String(vmid))?.value;
      if (!this.#isOurs(record)) return;
      tx.delete(guestCollection, String(vmid));
      tx.put(goneGuestCollection, String(vmid), { vmid, ...(purge ? { purge } : {}) });
    });
  }

  /** False when no server has taken a removed guest out of the cluster's configuration in time: one will, later. */
  waitForPurge(vmid: number, clock: Pick<Clock, "sleep">, signal: AbortSignal): Promise<boolean> {
    const gone = this.#deps.records().collection(goneGuestCollection);
    return patiently(() => gone.get(String(vmid)) === undefined, clock, signal);
  }

  /** False when no server has put a new guest into its pool in time: one will, later. */
  waitForPool(vmid: number, clock: Pick<Clock, "sleep">, signal: AbortSignal): Promise<boolean> {
    const guests = this.#deps.records().collection(guestCollection);
    return patiently(() => guests.get(String(vmid))?.value.wantedPool === undefined, clock, signal);
  }

  #changeIn(tx: Tx, vmid: number, change: (config: VmConfig) => VmConfig, made?: MadeVm): VmConfig {
    const record = tx.get(guestCollection, String(vmid))?.value;
    const before = this.#parse(vmid, record);
    const after = change(before);
    const conf = writeVmConfig(after);
    if (conf !== record?.conf || made !== undefined) {
      const { summary: _old, microvm: own, sizes: noted, ...kept } = record ?? {};
      const microvm = made === undefined ? own : made.microvm;
      const origin = originOf(made ?? {});
      const sizes = unsaidSizes(vmVolumes(before, noted), after);
      const next = { ...kept, ...origin, vmid, type: VM_TYPE, node: this.#deps.node, conf };
      tx.put(guestCollection, String(vmid), guestRecord({ ...next, ...given({ microvm, sizes }) }));
    }
    return parseVmConfig(conf, { vmid, digestOf: this.#deps.sha1Hex });
  }

  #parse(vmid: number, record: GuestRecord | undefined): VmConfig {
    if (record === undefined || !this.#isOurs(record)) {
      throw noSuchGuest(VM_TYPE, this.#deps.node, vmid);
    }
    let config = this.#parsed.get(record);
    if (config === undefined) {
      config = frozen(parseVmConfig(record.conf, { vmid, digestOf: this.#deps.sha1Hex }));
      this.#parsed.set(record, config);
    }
    return config;
  }

  #isOurs(record: GuestRecord | undefined): boolean {
    return record?.type === VM_TYPE && record.node === this.#deps.node;
  }
}

/** It is shared by all who read it. */
function frozen(config: VmConfig): VmConfig {
  for (const section of [config.values, config.pending, config.special, config.snapshots])
    Object.freeze(section);
  for (const sections of [config.special, config.snapshots]) Object.values(sections).forEach(Object.freeze);
  return Object.freeze(config);
}

/** Servers see what agents write, and do their part of it a moment later. */
async function patiently(
  isDone: () => boolean,
  clock: Pick<Clock, "sleep">,
  signal: AbortSignal,
): Promise<boolean> {
  for (let waited = 0; waited < SERVER_PATIENCE_MS; waited += SERVER_POLL_MS) {
    if (isDone()) return true;
    await clock.sleep(SERVER_POLL_MS, signal);
  }
  return false;
}

function alreadyExists(vmid: number, taken: GuestRecord): AppError {
  return new AppError(
    "object.exists",
    `unable to create VM ${vmid} - ${guestLabel(taken)} already exists on node '${taken.node}'`,
    { pveStatus: 500 },
  );
}
