// The manager's world in production: the cluster's records as this server's memory has them, and the nodes' leases.
import { datacenterOptions } from "@gpve/domain/cluster/datacenter-options.ts";
import { currentSection, guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import { isLeftover } from "@gpve/domain/ha/leftover-lock.ts";
import {
  commandCollection,
  groupCollection,
  localCollection,
  localId,
  managerCollection,
  managerLeaseCollection,
  MANAGER_LEASE_ID,
  MANAGER_STATUS_ID,
  productionTimings,
  resourceCollection,
  ruleCollection,
  vmidOfSid,
} from "@gpve/domain/ha/collections.ts";
import type { GuestActions, HaEnvironment, HaLogLevel } from "@gpve/domain/ha/environment.ts";
import { emptyManagerStatus, managerLock } from "@gpve/domain/ha/model.ts";
import { whyNotOn } from "@gpve/domain/ha/movable.ts";
import { leaseTimes, mayBeTaken } from "@gpve/domain/ha/node-lease.ts";
import { SaidOnce } from "@gpve/domain/ha/said-once.ts";
import { rulesOf, servicesOf } from "@gpve/domain/ha/services-view.ts";
import { haSettings } from "@gpve/domain/ha/settings.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../node/collections.ts";
import { LeaseWatch } from "./lease-watch.ts";
import { RoundChanges } from "./round-changes.ts";

export interface ManagerEnvironmentDeps {
  /** The machine of this server. */
  readonly node: string;
  /** This process. */
  readonly holder: string;
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Clock;
  readonly log: Logger;
  /** Nodes of the cluster. */
  readonly nodes: () => readonly string[];
  /** Proves a node dead by other means, once its lease is over; false = it could not, and is asked again. */
  readonly fenceHook?: (node: string, token: number) => boolean;
}

const MANAGER_LEASE_MS = 6_000;
const ORDER_WITHOUT = 1e9;
/** A node's memory that guests under HA are not given: it has work of its own. */
const SPARE_BYTES = 256 * 1024 * 1024;
const noGuests = new Proxy({} as GuestActions, {
  get: () => () => {
    throw new Error("the manager touches no guest");
  },
});

export class ManagerEnvironment {
  readonly #deps: ManagerEnvironmentDeps;
  readonly #watch: LeaseWatch;
  #changes = new RoundChanges();
  #quorate = false;
  /** The last round could not be committed: what the manager remembers of it is not so. */
  #void = false;
  #leadSeen: { readonly revision: number; readonly at: number } | undefined;
  #count = 0;
  readonly #repeats: SaidOnce;
  readonly view: HaEnvironment;

  constructor(deps: ManagerEnvironmentDeps) {
    this.#deps = deps;
    this.#watch = new LeaseWatch(deps.records, deps.clock);
    this.#repeats = new SaidOnce(deps.clock);
    this.view = this.#environment();
  }

  close(): void {
    this.#watch.close();
  }

  /** Before a round: whether what is in memory is what the quorum has. */
  begin(quorate: boolean): void {
    this.#quorate = quorate;
    this.#changes = new RoundChanges();
    const revision = this.#leadEntry()?.revision ?? 0;
    if (this.#leadSeen?.revision !== revision)
      this.#leadSeen = { revision, at: this.#deps.clock.monotonic() };
  }

  /** After it. */
  async commit(): Promise<void> {
    const changes = this.#changes;
    try {
      await changes.commit(this.#deps.records, this.#deps.clock.now(), this.#count++);
    } catch (err) {
      this.#void = true;
      throw err;
    }
    for (const { level, text } of changes.lines) this.#print(level as HaLogLevel, text);
  }

  /** What keeps a service from a node, rules aside; undefined = nothing. */
  whyNoRoom(sid: string, node: string): string | undefined {
    const { board, records } = this.#deps;
    const guest = this.#guest(sid);
    if (guest === undefined) return "its configuration is gone";
    const away = guest.node !== node;
    const { report, facts } = board.get(node) ?? {};
    const reach = {
      storages:
        report?.storages &&
        new Set(report.storages.filter((each) => each.active).map((each) => each.storage)),
      // One that has found none yet says so itself when it is asked to start the guest.
      bridges: facts?.bridges.length === 0 ? undefined : facts?.bridges,
    };
    const lacks = away ? whyNotOn(guest, valuesOf(records, storageCollection), node, reach) : undefined;
    const why = lacks ?? this.#noMemory(guest, node);
    if (why !== undefined) this.view.log("warning", `service '${sid}' cannot go to node '${node}': ${why}`);
    else if (report === undefined) return "it has not reported yet";
    return why;
  }

  #print(level: HaLogLevel, text: string): void {
    const { log } = this.#deps;
    log[level === "error" ? "error" : level === "warning" ? "warn" : "info"]({ ha: "manager" }, text);
  }

  #environment(): HaEnvironment {
    const { node, records, clock, board } = this.#deps;
    return {
      node,
      timings: productionTimings,
      now: () => clock.monotonic() / 1000,
      log: (level, text) => {
        if (this.#repeats.isNew(level, text)) this.#changes.lines.push({ level, text });
      },
      refresh: () => this.#quorate,
      quorate: () => this.#quorate,
      members: () => new Map(this.#deps.nodes().map((name) => [name, this.#watch.isAlive(name)])),
      lock: (name) => (name === managerLock ? this.#lead() : this.#fence(name)),
      keepsLease: (name) => this.#watch.isAlive(name) && this.#watch.of(name).lease?.holder === "node",
      unlock: (name) => {
        if (name === managerLock) this.#changes.lead = undefined;
      },
      feedWatchdog: () => undefined,
      closeWatchdog: () => undefined,
      managerStatus: () =>
        records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value ?? emptyManagerStatus(),
      saveManagerStatus: (status) => void (this.#changes.status = status),
      localStatus: (name) => records.collection(localCollection).get(localId(name))?.value,
      saveLocalStatus: () => undefined,
      services: () => this.#services(),
      rules: () =>
        rulesOf(
          valuesOf(records, ruleCollection),
          valuesOf(records, groupCollection),
          valuesOf(records, resourceCollection),
        ),
      settings: () => haSettings(datacenterOptions(records)),
      nodeCapacity: (name) => {
        const facts = board.get(name)?.facts;
        return { cpu: facts?.cpu.cpus ?? 1, memory: facts?.memoryBytes ?? 1 };
      },
      serviceLoad: (sid, measured) => this.#loadOf(sid, measured),
      takeCommands: () => {
        const commands = records.collection(commandCollection).list();
        this.#changes.commands = commands.map(({ id }) => id);
        return commands.map(({ value }) => value.line);
      },
      hasCommands: () => records.collection(commandCollection).list().length > 0,
      takeOver: (sid, _from, to) => {
        const vmid = vmidOfSid(sid);
        const from = this.#guest(sid)?.node;
        if (from !== undefined) this.#changes.takeOvers.set(vmid, { vmid, from, to });
      },
      clearGuestLock: (sid) => {
        const lock = this.#guest(sid)?.summary.lock;
        if (!isLeftover(lock)) return undefined;
        this.#changes.unlocked.add(vmidOfSid(sid));
        return lock;
      },
      hasRoom: (sid, name) => this.whyNoRoom(sid, name) === undefined,
      isClosed: (name) => records.collection(nodeRecords).get(name)?.value.unschedulable === true,
      recoveryOrder: (sid) => this.#order(sid),
      guests: noGuests,
    };
  }

  #leadEntry() {
    return this.#deps.records.collection(managerLeaseCollection).get(MANAGER_LEASE_ID);
  }

  #lead(): boolean {
    const { node, holder, clock } = this.#deps;
    if (this.#void) {
      this.#void = false;
      return false;
    }
    const entry = this.#leadEntry();
    const unseenMs = clock.monotonic() - (this.#leadSeen?.at ?? clock.monotonic());
    const mine = entry?.value.holder === holder;
    if (entry !== undefined && !mine && unseenMs < MANAGER_LEASE_MS) return false;
    const value = { holder, node, beat: (entry?.value.beat ?? 0) + 1, at: clock.now() };
    this.#changes.lead = { value, seenRevision: entry?.revision ?? 0 };
    return true;
  }

  /** The proof that nothing of HA runs on a node any more. */
  #fence(lock: string): boolean {
    const node = /^ha_agent_(.+)_lock$/.exec(lock)?.[1] ?? "";
    const { lease, revision, unchangedMs } = this.#watch.of(node);
    if (!mayBeTaken(lease, unchangedMs)) return false;
    if (this.#deps.fenceHook?.(node, lease?.token ?? 0) === false) return false;
    this.#changes.leases.set(node, revision);
    const held = lease?.holder === "node";
    const since = `no renewal of its lease (token ${lease?.token ?? 0}) was seen for ${seconds(unchangedMs)}`;
    this.view.log(
      "notice",
      held
        ? `node '${node}': ${since}; its guests ended ${seconds(leaseTimes.stopMs)} after the last one`
        : `node '${node}' held no lease: no guest under HA could run there`,
    );
    return true;
  }

  #services() {
    const { records } = this.#deps;
    return servicesOf(
      valuesOf(records, resourceCollection),
      (vmid) => records.collection(guestCollection).get(String(vmid))?.value,
      valuesOf(records, groupCollection),
    );
  }

  #guest(sid: string): GuestRecord | undefined {
    return this.#deps.records.collection(guestCollection).get(String(vmidOfSid(sid)))?.value;
  }

  #loadOf(sid: string, measured: boolean): { readonly cpu: number; readonly memory: number } {
    const guest = this.#guest(sid);
    const configured = { cpu: guest?.summary.cpus ?? 1, memory: guest?.summary.maxmem ?? 1 };
    if (!measured || guest === undefined) return configured;
    const rows = this.#deps.board.get(guest.node)?.report?.guests ?? [];
    const row = rows.find(({ vmid }) => vmid === guest.vmid);
    return row === undefined ? configured : { cpu: row.cpu * configured.cpu, memory: row.mem };
  }

  #order(sid: string): number {
    const startup = currentSection(this.#guest(sid)?.conf ?? "").get("startup") ?? "";
    return Number(/(?:^|,)(?:order=)?(\d+)(?:,|$)/.exec(startup)?.[1] ?? ORDER_WITHOUT);
  }

  #noMemory(guest: GuestRecord, node: string): string | undefined {
    const { board, records } = this.#deps;
    const view = board.get(node);
    const total = view?.facts?.memoryBytes;
    if (total === undefined) return undefined;
    const running = new Set((view?.report?.guests ?? []).map(({ vmid }) => vmid));
    // Who was sent there a moment ago does not run yet, and no report tells of him.
    const sent = Object.entries(this.view.managerStatus().services)
      .filter(
        ([, service]) => service.target === node || (service.state === "started" && service.node === node),
      )
      .map(([sid]) => vmidOfSid(sid));
    const given = [...this.#changes.takeOvers.values()].filter(({ to }) => to === node);
    const coming = new Set([...sent, ...given.map(({ vmid }) => vmid)]);
    const taken = valuesOf(records, guestCollection)
      .filter(({ vmid }) => vmid !== guest.vmid && (running.has(vmid) || coming.has(vmid)))
      .reduce((sum, { summary }) => sum + summary.maxmem, 0);
    const free = total - taken - SPARE_BYTES;
    if (guest.summary.maxmem <= free) return undefined;
    return `it needs ${mebibytes(guest.summary.maxmem)} of memory, ${mebibytes(free)} are free`;
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

function mebibytes(bytes: number): string {
  return `${Math.max(0, Math.round(bytes / 1024 / 1024))} MiB`;
}
