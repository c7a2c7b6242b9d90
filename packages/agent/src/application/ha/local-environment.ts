// The world of one node's local manager in production: the cluster's records, the fence process and the node's guests.
// A round reads and decides at once; what it wrote is sent afterwards, in the order that safety wants.
import { messageOf } from "@gpve/contracts/errors.ts";
import { datacenterOptions } from "@gpve/domain/cluster/datacenter-options.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import {
  evidenceCollection,
  evidenceId,
  localCollection,
  localId,
  managerCollection,
  MANAGER_STATUS_ID,
  productionTimings,
  resourceCollection,
} from "@gpve/domain/ha/collections.ts";
import type { GuestActions, HaEnvironment, HaLogLevel } from "@gpve/domain/ha/environment.ts";
import { emptyManagerStatus, type LocalStatus, type ManagerStatus } from "@gpve/domain/ha/model.ts";
import { leaseTimes } from "@gpve/domain/ha/node-lease.ts";
import { SaidOnce } from "@gpve/domain/ha/said-once.ts";
import { servicesOf } from "@gpve/domain/ha/services-view.ts";
import { haSettings } from "@gpve/domain/ha/settings.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { LeaseReport } from "@gpve/domain/ha/fencing.ts";

export interface LocalEnvironmentDeps {
  readonly node: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly bootMs: () => number;
  /** Throws while no server is in reach. */
  readonly records: () => Records;
  /** What the fence process last said; undefined = it has said nothing. */
  readonly lease: () => LeaseReport | undefined;
  readonly wish: (hold: boolean) => void;
  /** As somebody wished it, also before this process began. */
  readonly wished: () => boolean;
  readonly guests: GuestActions;
  /** True when every guest of HA here has a deadline. */
  readonly allGuarded: () => boolean;
  /** Takes the deadlines of all guests away; throws when one keeps it. */
  readonly unguardAll: () => Promise<void>;
}

const nothing = (): undefined => undefined;
const unknownHere = (): never => {
  throw new Error("only the manager asks for this");
};

export class LocalEnvironment {
  readonly #deps: LocalEnvironmentDeps;
  #hold: boolean | undefined;
  #status: LocalStatus | undefined;
  #lines: { level: HaLogLevel; text: string }[] = [];
  #count = 0;
  readonly #repeats: SaidOnce;
  readonly view: HaEnvironment;

  constructor(deps: LocalEnvironmentDeps) {
    this.#deps = deps;
    this.#repeats = new SaidOnce(deps.clock);
    this.view = this.#environment();
  }

  managerStatus(): ManagerStatus {
    const stored = this.#deps.records().collection(managerCollection).get(MANAGER_STATUS_ID)?.value;
    return stored ?? emptyManagerStatus();
  }

  /** Until when guests may run here; undefined = no lease. */
  holdsLease(): boolean {
    const report = this.#deps.lease();
    return report?.held === true && report.deadline > this.#deps.bootMs();
  }

  /** Under HA, and so never without a deadline. */
  isManaged(sid: string): boolean {
    const { records } = this.#deps;
    const resource = records().collection(resourceCollection).get(sid)?.value;
    return (
      resource !== undefined && resource.state !== "ignored" && this.managerStatus().disarm === undefined
    );
  }

  /** What the round said and wanted. Nothing is let go of before the manager can read that it is. */
  async flush(): Promise<void> {
    await this.#save();
    if (this.#hold === undefined) return;
    if (!this.#hold) await this.#deps.unguardAll();
    this.#deps.wish(this.#hold);
    this.#hold = undefined;
  }

  /** Of a wish that outlived its reason: a machine that lost its power had it. */
  giveBack(): void {
    if (this.#deps.wished()) this.#deps.wish(false);
  }

  async #save(): Promise<void> {
    const { records, node, clock } = this.#deps;
    const lines = this.#lines;
    const status = this.#status;
    const before = records().collection(localCollection).get(localId(node))?.value;
    const isNew = status !== undefined && JSON.stringify(before) !== JSON.stringify(status);
    if (!isNew && lines.length === 0) return;
    this.#lines = [];
    try {
      await records().transact((tx) => {
        if (status !== undefined) tx.put(localCollection, localId(node), status);
        if (lines.length === 0) return;
        const at = clock.now();
        const evidence = { at, by: node, role: "local" as const, lines };
        tx.put(evidenceCollection, evidenceId(node, at, this.#count++), evidence);
      });
    } catch (err) {
      this.#lines = [...lines, ...this.#lines];
      throw err;
    }
  }

  #environment(): HaEnvironment {
    const { node, clock, log, records, bootMs, lease, guests, allGuarded } = this.#deps;
    return {
      node,
      timings: productionTimings,
      now: () => clock.monotonic() / 1000,
      log: (level, text) => {
        if (!this.#repeats.isNew(level, text)) return;
        log[level === "error" ? "error" : level === "warning" ? "warn" : "info"]({ ha: true }, text);
        this.#lines.push({ level, text });
        this.#lines.splice(0, this.#lines.length - 100);
      },
      refresh: () => this.#reachable(),
      quorate: () => bootMs() - (lease()?.renewed ?? -Infinity) < leaseTimes.awayMs,
      members: () => new Map([[node, true]]),
      lock: () => {
        this.#hold = true;
        return this.holdsLease();
      },
      unlock: () => {
        this.#hold = false;
      },
      feedWatchdog: nothing,
      closeWatchdog: nothing,
      managerStatus: () => this.managerStatus(),
      saveManagerStatus: unknownHere,
      localStatus: (name) => records().collection(localCollection).get(localId(name))?.value,
      saveLocalStatus: (status) => {
        this.#status = { ...status, guarded: status.guarded && (allGuarded() || !this.#runsAny()) };
      },
      services: () =>
        servicesOf(
          valuesOf(records(), resourceCollection),
          (vmid) => records().collection(guestCollection).get(String(vmid))?.value,
        ),
      rules: unknownHere,
      settings: () => haSettings(datacenterOptions(records())),
      nodeCapacity: unknownHere,
      serviceLoad: unknownHere,
      takeCommands: () => [],
      hasCommands: () => false,
      takeOver: unknownHere,
      clearGuestLock: unknownHere,
      guests,
    };
  }

  #runsAny(): boolean {
    const { node, guests } = this.#deps;
    return Object.entries(this.managerStatus().services).some(
      ([sid, service]) => service.node === node && guests.isRunning(sid),
    );
  }

  #reachable(): boolean {
    try {
      this.#deps.records();
      return true;
    } catch (err) {
      this.#deps.log.debug({ err: messageOf(err) }, "the cluster's records cannot be read yet");
      return false;
    }
  }
}
