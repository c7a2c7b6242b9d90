// The local manager of one node: holds the node's lease, feeds its watchdog, and carries out what the manager ordered
// for the services here, each order once.
import { agentLock } from "./model.ts";
import type { LocalMode, LocalState, ManagerStatus, ServiceStatus, ShutdownPolicy } from "./model.ts";
import type { HaEnvironment } from "./environment.ts";
import { LocalWork } from "./local-work.ts";

export class LocalManager {
  readonly #env: HaEnvironment;
  readonly #work: LocalWork;
  #state: LocalState = "wait_for_agent_lock";
  #mode: LocalMode = "active";
  #ending: "shutdown" | "reboot" | "restart" | undefined;
  #manager: ManagerStatus | undefined;
  #idleRounds = 0;
  /** Of a maintenance: guests that cannot leave are stopped before the node goes down. */
  #stopsRest = false;

  constructor(env: HaEnvironment) {
    this.#env = env;
    this.#work = new LocalWork(env);
    env.log("info", "status change startup => wait_for_agent_lock");
  }

  /** The node goes down (or reboots), or only this process is restarted. */
  requestShutdown(reason: "shutdown" | "reboot" | "restart"): void {
    const policy = this.#env.settings().shutdownPolicy;
    // Asked twice it stays with the first; only a restart may still become the end of the machine.
    if (this.#ending !== undefined && (this.#ending !== "restart" || reason === "restart"))
      return this.#askedAgain(reason, policy);
    this.#ending = reason;
    if (reason !== "restart") this.#env.log("info", `got shutdown request with shutdown policy '${policy}'`);
    if (this.#mode === "maintenance") {
      // Until the operator ends it, whatever the policy: no guest comes back to a node that is about to go.
      const ignored = policy === "migrate" && reason !== "restart" ? "ignore maintenance policy, " : "";
      this.#env.log("info", `${reason} LRM, ${ignored}already in maintenance mode`);
      this.#stopsRest = reason !== "restart" && policy !== "migrate";
    } else if (reason === "restart") {
      this.#env.log("info", "restart LRM, freeze all services");
      this.#mode = "restart";
    } else if (policy === "migrate") {
      this.#env.log("info", `${reason} LRM, doing maintenance, removing this node from active list`);
      this.#mode = "maintenance";
    } else if (policy === "freeze" || (policy === "conditional" && reason === "reboot")) {
      this.#env.log("info", `${reason} LRM, stop and freeze all services`);
      this.#mode = "restart";
    } else {
      this.#env.log("info", "shutdown LRM, stop all services");
      this.#mode = "shutdown";
    }
    this.#report();
  }

  /** False: nothing under HA is here or on its way, and this process has no lease to give back in good order. */
  needsLease(): boolean {
    const isWaiting = this.#manager !== undefined && this.#state === "wait_for_agent_lock";
    return !isWaiting || this.#activeServices() > 0 || this.#running() > 0;
  }

  /** One round; false when this process has ended. */
  round(): boolean {
    if (!this.#env.refresh()) {
      this.#env.log("notice", "temporary inconsistent cluster state (cfs restart?), skip round");
      // Not being able to read is no reason to be reset as long as the lease can still be renewed.
      if (this.#holdsLease()) this.#renew();
      return true;
    }
    this.#readManager();
    this.#maintenanceMode();
    try {
      return this.#step();
    } catch (err) {
      this.#env.log("error", `round given up, next one tries again - ${(err as Error).message}`);
      return true;
    } finally {
      this.#report();
    }
  }

  /** Who changed the policy meanwhile wants no longer to wait for guests that cannot leave. It is never taken back. */
  #askedAgain(reason: "shutdown" | "reboot" | "restart", policy: ShutdownPolicy): void {
    if (this.#mode !== "maintenance" || reason === "restart" || policy === "migrate" || this.#stopsRest)
      return;
    this.#env.log("info", `${reason} LRM, shutdown policy is '${policy}' now, stop what cannot leave`);
    this.#stopsRest = true;
  }

  #step(): boolean {
    switch (this.#state) {
      case "wait_for_agent_lock":
        if (this.#ending !== undefined && !this.#sendsAway()) {
          // Guests that run disarmed: who went down in good order has none left that might run.
          if (this.#ending !== "restart") this.#work.stopAll(this.#manager?.services ?? {});
          return this.#ending !== "restart" && this.#running() > 0 ? true : this.#exit();
        }
        if (this.#mayActivate() && this.#takeLease()) {
          this.#to(this.#mode === "maintenance" ? "maintenance" : "active");
          return this.#active();
        }
        return true;
      case "lost_agent_lock":
        if (this.#ending !== undefined && this.#running() > 0) {
          this.#env.log(
            "error",
            `got shutdown request in state 'lost_agent_lock' - detected ${this.#running()} running services`,
          );
        }
        if (this.#ending !== undefined && this.#running() === 0) return this.#exit();
        if (!this.#fenceRequested() && this.#takeLease()) {
          this.#to(this.#mode === "maintenance" ? "maintenance" : "active");
          return this.#active();
        }
        return true;
      case "active":
      case "maintenance":
        if (!this.#renew()) {
          this.#to("lost_agent_lock");
          return this.#step();
        }
        return this.#active();
    }
  }

  #active(): boolean {
    if (this.#state === "active" && this.#mode === "maintenance") this.#to("maintenance");
    if (this.#state === "maintenance" && this.#mode !== "maintenance") {
      if (this.#disarmed()) return this.#standDown(" during maintenance");
      if (!this.#takeLease()) return true;
      this.#to("active");
    }
    if (this.#state === "active" && this.#disarmed()) return this.#standDown("");

    if (this.#state === "active" && this.#ending === undefined && this.#goesIdle()) {
      this.#release();
      this.#to("wait_for_agent_lock");
      return true;
    }
    if (this.#ending !== undefined && this.#mode !== "maintenance") {
      const services = this.#manager?.services ?? {};
      this.#work.finishMoves(services);
      // A restart of this process touches no guest; when the machine goes down they go first.
      if (this.#ending !== "restart") this.#work.stopAll(services);
      if (this.#work.isMoving() || (this.#mode === "restart" && !this.#frozen())) return true;
      return this.#ending !== "restart" && this.#running() > 0 ? true : this.#exit();
    }
    if (this.#ending !== undefined && (this.#servicesHere() === 0 || this.#cannotLeave()))
      return this.#exit();
    if (this.#manager !== undefined) this.#work.carryOut(this.#manager.services);
    return true;
  }

  /** Whoever is left here in maintenance is not moved; true when nothing is in the way of the end any more. */
  #cannotLeave(): boolean {
    const moves = this.#here().some(([, { target }]) => target !== undefined);
    if (moves || this.#manager?.nodes[this.#env.node] !== "maintenance") return false;
    if (this.#stopsRest) this.#work.stopAll(this.#manager.services);
    return this.#ending === "restart" || (this.#stopsRest && this.#running() === 0);
  }

  #standDown(when: string): boolean {
    this.#env.log("info", `HA disarm requested${when}, releasing agent lock and watchdog`);
    this.#release();
    this.#to("wait_for_agent_lock");
    return true;
  }

  #goesIdle(): boolean {
    this.#idleRounds = this.#activeServices() === 0 ? this.#idleRounds + 1 : 0;
    const limit = this.#env.timings.idleRoundsLocal;
    if (this.#idleRounds <= limit) return false;
    this.#idleRounds = 0;
    this.#env.log("info", `node had no service configured for ${limit} rounds, going idle.`);
    return true;
  }

  /** Without a lease nothing can be sent away: disarmed, cut off or fenced, it goes down as it is. */
  #sendsAway(): boolean {
    return this.#mode === "maintenance" && this.#servicesHere() > 0 && this.#mayActivate();
  }

  #mayActivate(): boolean {
    return !this.#disarmed() && !this.#fenceRequested() && this.#env.quorate() && this.#activeServices() > 0;
  }

  #takeLease(): boolean {
    if (!this.#env.quorate() || !this.#env.lock(agentLock(this.#env.node))) return false;
    this.#env.log("info", `got lock '${agentLock(this.#env.node)}'`);
    this.#env.feedWatchdog("lrm");
    return true;
  }

  #renew(): boolean {
    if (!this.#env.quorate() || !this.#env.lock(agentLock(this.#env.node))) return false;
    this.#env.feedWatchdog("lrm");
    return true;
  }

  #release(): void {
    // Said first: should this node be cut off right after, nobody may think that its guests are fenced.
    this.#save(false);
    this.#env.closeWatchdog("lrm");
    this.#env.unlock(agentLock(this.#env.node));
  }

  #exit(): false {
    if (this.#holdsLease()) this.#release();
    return false;
  }

  #holdsLease(): boolean {
    return this.#state === "active" || this.#state === "maintenance";
  }

  #to(state: LocalState): void {
    this.#env.log("info", `status change ${this.#state} => ${state}`);
    this.#state = state;
  }

  #readManager(): void {
    try {
      this.#manager = this.#env.managerStatus();
    } catch (err) {
      this.#env.log("error", `updating service status from manager failed: ${(err as Error).message}`);
    }
  }

  #report(): void {
    try {
      this.#save(this.#holdsLease());
    } catch (err) {
      this.#env.log("error", `unable to write lrm status file - ${(err as Error).message}`);
    }
  }

  #save(leased: boolean): void {
    const guarded = leased || this.#running() === 0;
    this.#env.saveLocalStatus({
      state: this.#state,
      mode: this.#mode,
      guarded,
      results: this.#work.results(),
    });
  }

  #maintenanceMode(): void {
    if (this.#ending !== undefined) return;
    this.#mode = this.#manager?.maintenance[this.#env.node] === true ? "maintenance" : "active";
  }

  #disarmed(): boolean {
    return this.#manager?.disarm !== undefined;
  }

  #fenceRequested(): boolean {
    return this.#manager?.nodes[this.#env.node] === "fence";
  }

  #here(): readonly (readonly [string, ServiceStatus])[] {
    return Object.entries(this.#manager?.services ?? {}).filter(
      ([, service]) => service.node === this.#env.node,
    );
  }

  #servicesHere(): number {
    return this.#here().filter(([, { state }]) => !["stopped", "error", "freeze"].includes(state)).length;
  }

  #frozen(): boolean {
    return this.#here().every(([, { state }]) => ["freeze", "stopped", "error"].includes(state));
  }

  #running(): number {
    return this.#here().filter(([sid]) => this.#env.guests.isRunning(sid)).length;
  }

  /** Services that need this node's lease: those to run here, and those on their way here. */
  #activeServices(): number {
    return Object.values(this.#manager?.services ?? {}).filter(
      ({ state, node, target }) =>
        !["stopped", "freeze", "error"].includes(state) &&
        (node === this.#env.node || target === this.#env.node),
    ).length;
  }
}
