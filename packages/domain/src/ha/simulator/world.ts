// The simulated cluster: hardware, the shared store with its leases, and the guests. Time stands still unless told.
import { defaultTimings } from "../model.ts";
import type { HaTimings, Load, LocalStatus, ManagerStatus, ServiceConfig } from "../model.ts";
import type { LogLine, Scenario } from "./scenario.ts";

export interface SimNode {
  power: boolean;
  network: boolean;
  readonly capacity: Load;
  /** Faults of its view of the shared store. */
  storeFails: boolean;
  storeStale: boolean;
}

export class World {
  nowS = 0;
  readonly timings: HaTimings;
  readonly nodes = new Map<string, SimNode>();
  readonly services: Map<string, ServiceConfig>;
  readonly configured: Map<string, Load>;
  readonly measured: Map<string, Load>;
  readonly scenario: Scenario;
  readonly log: LogLine[] = [];
  readonly localStatus = new Map<string, LocalStatus>();
  readonly guestLocks = new Map<string, string>();
  readonly commands: string[] = [];
  manager: ManagerStatus;
  /** Each time a guest was started while it ran elsewhere. Must stay empty. */
  readonly doubleStarts: string[] = [];
  readonly #running = new Map<string, string>();
  readonly #locks = new Map<string, { readonly owner: string; readonly atS: number }>();
  readonly #watchdogs = new Map<string, number>();

  constructor(scenario: Scenario, timings: HaTimings = defaultTimings) {
    this.scenario = scenario;
    this.timings = timings;
    for (const [name, { power, network, capacity }] of scenario.hardware) {
      this.nodes.set(name, { power, network, capacity, storeFails: false, storeStale: false });
    }
    this.services = new Map(scenario.services);
    this.configured = new Map(scenario.configured);
    this.measured = new Map(scenario.measured);
    this.manager = structuredClone(scenario.manager);
    for (const [sid, node] of scenario.running ?? []) this.#running.set(sid, node);
  }

  say(level: string, who: string, text: string): void {
    this.log.push({ level, atS: this.nowS, who, text });
  }

  names(): readonly string[] {
    return [...this.nodes.keys()].toSorted();
  }

  connected(node: string): boolean {
    const hardware = this.nodes.get(node);
    return hardware !== undefined && hardware.power && hardware.network;
  }

  quorate(node: string): boolean {
    const here = this.names().filter((name) => this.connected(name)).length;
    return this.connected(node) && here * 2 > this.nodes.size;
  }

  lock(name: string, owner: string): boolean {
    if (!this.quorate(owner)) return false;
    const held = this.#locks.get(name);
    if (held !== undefined && held.owner !== owner && this.nowS - held.atS <= this.timings.lockS)
      return false;
    this.#locks.set(name, { owner, atS: this.nowS });
    return true;
  }

  unlock(name: string, owner: string): void {
    if (this.#locks.get(name)?.owner === owner) this.#locks.delete(name);
  }

  feedWatchdog(node: string, role: string): void {
    this.#watchdogs.set(`${node}/${role}`, this.nowS);
  }

  closeWatchdog(node: string, role: string): void {
    this.#watchdogs.delete(`${node}/${role}`);
  }

  watchdogBites(node: string): boolean {
    return ["crm", "lrm"].some((role) => {
      const fed = this.#watchdogs.get(`${node}/${role}`);
      return fed !== undefined && this.nowS - fed > this.timings.watchdogS;
    });
  }

  runsOn(sid: string): string | undefined {
    return this.#running.get(sid);
  }

  started(sid: string, node: string): void {
    const elsewhere = this.#running.get(sid);
    if (elsewhere !== undefined && elsewhere !== node) {
      this.doubleStarts.push(`${this.nowS}: ${sid} started on ${node} while it ran on ${elsewhere}`);
    }
    this.#running.set(sid, node);
  }

  stopped(sid: string): void {
    this.#running.delete(sid);
  }

  /** Power is gone: whatever ran there does not any more. */
  cutPower(node: string): void {
    const hardware = this.nodes.get(node);
    if (hardware === undefined) return;
    hardware.power = false;
    hardware.network = false;
    for (const [sid, where] of this.#running) if (where === node) this.#running.delete(sid);
    for (const role of ["crm", "lrm"]) this.closeWatchdog(node, role);
  }

  moveConfig(sid: string, node: string): void {
    const config = this.services.get(sid);
    if (config !== undefined) this.services.set(sid, { ...config, node });
  }
}
