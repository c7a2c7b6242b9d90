// Configurations of this node's guests of one kind, kept in the cluster's store. Every change is compare-and-swap on the
// stored text.
import { given } from "@gpve/contracts/given.ts";
import {
  goneGuestCollection,
  guestCollection,
  guestRecord,
  type GuestRecord,
  type Microvm,
} from "@gpve/domain/guest/guest-record.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import { noSuchGuest } from "@gpve/domain/guest/guest-words.ts";
import type { GuestConfig } from "@gpve/domain/guest/guest-config.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Tx } from "@gpve/store/records/port.ts";
import { alreadyExists, ClusterGuests, type ClusterGuestsDeps } from "./cluster-guests.ts";

const SERVER_PATIENCE_MS = 5_000;
const SERVER_POLL_MS = 50;

/** How a kind reads and writes its files. */
export interface ConfigFormat {
  parse(
    text: string,
    options: { readonly vmid: number; readonly digestOf: (text: string) => string },
  ): GuestConfig;
  write(config: GuestConfig): string;
  /** Of volumes whose size the file has no place for: what the record says of them from now on. */
  sizesToNote?(before: GuestConfig, noted: GuestRecord["sizes"], after: GuestConfig): GuestRecord["sizes"];
}

export interface GuestConfigsDeps extends ClusterGuestsDeps {
  readonly type: GuestType;
  readonly format: ConfigFormat;
  readonly sha1Hex: (text: string) => string;
  readonly clock: Pick<Clock, "now">;
}

/** What a guest has besides its configuration. */
export interface MadeGuest {
  /** Servers put it there; see `waitForPool`. */
  readonly pool?: string | undefined;
  readonly microvm?: Microvm | undefined;
  /** The request that asked for it. Servers let a node make only what they have asked it for. */
  readonly madeBy?: string | undefined;
}

function originOf({ pool, madeBy }: MadeGuest): Pick<GuestRecord, "wantedPool" | "madeBy"> {
  return {
    ...given({ wantedPool: pool, madeBy }),
  };
}

export class GuestConfigs extends ClusterGuests {
  readonly #deps: GuestConfigsDeps;
  /** By stored record: a changed guest is another record, so nobody reads an old configuration here. */
  readonly #parsed = new WeakMap<GuestRecord, GuestConfig>();

  constructor(deps: GuestConfigsDeps) {
    super(deps);
    this.#deps = deps;
  }

  /** Throws PVE's text when this node has no such guest. */
  get(vmid: number): GuestConfig {
    const record = this.#deps.records().collection(guestCollection).get(String(vmid))?.value;
    return this.#parse(vmid, record);
  }

  /** The request that had it made; undefined = not known. */
  madeBy(vmid: number): string | undefined {
    return this.#deps.records().collection(guestCollection).get(String(vmid))?.value.madeBy;
  }

  find(vmid: number): GuestConfig | undefined {
    return this.has(vmid) ? this.get(vmid) : undefined;
  }

  has(vmid: number): boolean {
    const record = this.#deps.records().collection(guestCollection).get(String(vmid))?.value;
    return this.#isOurs(record);
  }

  /** VMIDs of this node's guests of the kind. */
  list(): readonly number[] {
    return this.#deps
      .records()
      .collection(guestCollection)
      .list()
      .flatMap(({ value }) => (this.#isOurs(value) ? [value.vmid] : []));
  }

  async create(vmid: number, config: GuestConfig, made: MadeGuest = {}): Promise<void> {
    const { node, records } = this.#deps;
    await records().transact((tx) => {
      const taken = tx.get(guestCollection, String(vmid))?.value;
      if (taken !== undefined) throw alreadyExists(vmid, taken);
      tx.put(
        guestCollection,
        String(vmid),
        guestRecord({
          vmid,
          type: this.#deps.type,
          node,
          conf: this.#deps.format.write(config),
          ...originOf(made),
          ...given({ microvm: made.microvm }),
        }),
      );
    });
  }

  /** `change` may run several times; what it throws aborts. Returns the configuration as stored. */
  async change(vmid: number, change: (config: GuestConfig) => GuestConfig): Promise<GuestConfig> {
    return this.#deps.records().transact((tx) => this.#changeIn(tx, vmid, change));
  }

  /** The guest becomes another one under its id, of another machine perhaps. */
  async replace(vmid: number, config: GuestConfig, made: MadeGuest): Promise<void> {
    await this.#deps.records().transact((tx) => this.#changeIn(tx, vmid, () => config, made));
  }

  /** No error when it is gone already: deleting may run again after a crash. */
  async remove(vmid: number, purge = false): Promise<void> {
    await this.#deps.records().transact((tx) => {
      const record = tx.get(guestCollection, String(vmid))?.value;
      if (record === undefined || !this.#isOurs(record)) return;
      tx.delete(guestCollection, String(vmid));
      const { type, node, backups = 0 } = record;
      const left = backups === 0 ? undefined : { type, node, backups };
      tx.put(goneGuestCollection, String(vmid), { vmid, ...(purge ? { purge } : {}), ...given({ left }) });
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

  #changeIn(
    tx: Tx,
    vmid: number,
    change: (config: GuestConfig) => GuestConfig,
    made?: MadeGuest,
  ): GuestConfig {
    const record = tx.get(guestCollection, String(vmid))?.value;
    const before = this.#parse(vmid, record);
    const after = change(before);
    const conf = this.#deps.format.write(after);
    if (conf !== record?.conf || made !== undefined) {
      const { summary: _old, microvm: own, sizes: noted, ...kept } = record ?? {};
      const microvm = made === undefined ? own : made.microvm;
      const origin = originOf(made ?? {});
      const sizes = this.#deps.format.sizesToNote?.(before, noted, after);
      const next = { ...kept, ...origin, vmid, type: this.#deps.type, node: this.#deps.node, conf };
      const pendingAt =
        hasPending(conf) === hasPending(record?.conf ?? "") ? record?.pendingAt : this.#deps.clock.now();
      tx.put(
        guestCollection,
        String(vmid),
        guestRecord({ ...next, ...given({ microvm, sizes, pendingAt }) }),
      );
    }
    return this.#deps.format.parse(conf, { vmid, digestOf: this.#deps.sha1Hex });
  }

  #parse(vmid: number, record: GuestRecord | undefined): GuestConfig {
    if (record === undefined || !this.#isOurs(record)) {
      throw noSuchGuest(this.#deps.type, this.#deps.node, vmid);
    }
    let config = this.#parsed.get(record);
    if (config === undefined) {
      config = frozen(this.#deps.format.parse(record.conf, { vmid, digestOf: this.#deps.sha1Hex }));
      this.#parsed.set(record, config);
    }
    return config;
  }

  #isOurs(record: GuestRecord | undefined): boolean {
    return record?.type === this.#deps.type && record.node === this.#deps.node;
  }
}

function hasPending(conf: string): boolean {
  return /^\[PENDING\]/im.test(conf);
}

/** It is shared by all who read it. */
function frozen(config: GuestConfig): GuestConfig {
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
