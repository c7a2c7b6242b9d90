// One per node; the one that holds the manager's lease is the master and runs the manager.
import type { HaEnvironment } from "./environment.ts";
import { Manager } from "./service-manager.ts";
import { managerLock } from "./model.ts";
import type { CoordinatorState } from "./model.ts";

export class Coordinator {
  readonly #env: HaEnvironment;
  #state: CoordinatorState = "wait_for_quorum";
  #manager: Manager | undefined;
  #ending = false;
  #idleRounds = 0;

  constructor(env: HaEnvironment) {
    this.#env = env;
    env.log("info", "status change startup => wait_for_quorum");
  }

  requestShutdown(): void {
    this.#env.log("info", "server received shutdown request");
    this.#ending = true;
  }

  /** One round; false when this process has ended. */
  round(): boolean {
    if (!this.#env.refresh()) {
      this.#env.log("notice", "temporary inconsistent cluster state (cfs restart?), skip round");
      if (this.#state === "master") this.#renew();
      return true;
    }
    try {
      return this.#step();
    } catch (err) {
      this.#env.log("error", `got unexpected error - ${(err as Error).message}`);
      return true;
    }
  }

  #step(): boolean {
    if (this.#state === "lost_manager_lock" || this.#state === "master") {
      if (!this.#renew()) {
        if (this.#state === "master") this.#to("lost_manager_lock");
        this.#leave();
      } else if (this.#state === "lost_manager_lock") this.#become();
    } else if (!this.#ending) {
      this.#elect();
    }
    if (this.#state !== "master") return !this.#ending;
    if (this.#ending) {
      this.#env.log("info", "voluntary release CRM lock");
      this.#env.closeWatchdog("crm");
      this.#env.unlock(managerLock);
      return false;
    }
    return this.#manage();
  }

  #elect(): void {
    if (!this.#env.quorate()) {
      if (this.#state === "slave") this.#to("wait_for_quorum");
      return;
    }
    // A node that is being fenced takes no part until that is settled.
    const fenced =
      this.#state === "wait_for_quorum" && this.#env.managerStatus().nodes[this.#env.node] === "fence";
    if (fenced && !this.#env.lock(managerLock)) return;
    if (!this.#needed()) {
      if (this.#state === "slave") this.#to("wait_for_quorum");
      return;
    }
    if (this.#env.lock(managerLock)) this.#become();
    else if (this.#state === "wait_for_quorum") this.#to("slave");
  }

  #become(): void {
    const disarmed = this.#env.managerStatus().disarm?.state === "disarmed";
    this.#env.log("info", `got lock '${managerLock}'`);
    if (disarmed) this.#env.log("info", "taking over as disarmed master, skipping watchdog");
    else this.#env.feedWatchdog("crm");
    this.#to("master");
    this.#idleRounds = 0;
    this.#manager = new Manager(this.#env);
  }

  #manage(): boolean {
    const idle = this.#manager?.isEmpty() === true && this.#env.services().size === 0;
    const disarmed = this.#manager?.round() ?? false;
    if (disarmed) this.#env.closeWatchdog("crm");
    else this.#env.feedWatchdog("crm");
    this.#idle(idle);
    return true;
  }

  #idle(nothingToDo: boolean): void {
    this.#idleRounds = nothingToDo ? this.#idleRounds + 1 : 0;
    const limit = this.#env.timings.idleRoundsCluster;
    if (this.#idleRounds <= limit) return;
    this.#env.log("info", `cluster had no service configured for ${limit} rounds, going idle.`);
    this.#env.closeWatchdog("crm");
    this.#env.unlock(managerLock);
    this.#leave();
  }

  /** Nothing to look after: no master, no watchdog. */
  #needed(): boolean {
    if (this.#env.services().size > 0 || this.#env.hasCommands()) return true;
    // A master that ended before it had forgotten the last of them leaves that to the next.
    return Object.keys(this.#env.managerStatus().services).length > 0;
  }

  #renew(): boolean {
    if (!this.#env.quorate() || !this.#env.lock(managerLock)) return false;
    // A disarmed master has closed its watchdog and must not open it again before it is armed.
    if (this.#armed()) this.#env.feedWatchdog("crm");
    return true;
  }

  #armed(): boolean {
    try {
      return this.#env.managerStatus().disarm?.state !== "disarmed";
    } catch {
      return true;
    }
  }

  #leave(): void {
    this.#manager = undefined;
    this.#to("wait_for_quorum");
  }

  #to(state: CoordinatorState): void {
    this.#env.log("info", `status change ${this.#state} => ${state}`);
    this.#state = state;
  }
}
