// Disarming takes every watchdog and lease away for work on the network, without touching a guest; arming gives them
// back. `freeze` keeps services as they are, `ignore` also lets the operator handle them meanwhile.
import type { HaEnvironment } from "./environment.ts";
import type { DisarmMode, ManagerStatus, ServiceState } from "./model.ts";
import type { NodeStates } from "./node-states.ts";

export class Disarming {
  readonly #env: HaEnvironment;
  readonly #status: ManagerStatus;
  #arming = false;
  #deferred = false;
  #suspended = false;

  constructor(env: HaEnvironment, status: ManagerStatus) {
    this.#env = env;
    this.#status = status;
    this.#suspended = status.disarm !== undefined;
  }

  request(mode: DisarmMode): void {
    const { disarm } = this.#status;
    // Another mode in mid-way would freeze what was only let go of: armed first, it is asked for again.
    if (disarm !== undefined && !this.#arming) {
      const how = `mode '${disarm.mode}', state '${disarm.state}'`;
      this.#env.log("warning", `ignoring disarm-ha command - already disarming or disarmed (${how})`);
      return;
    }
    this.#env.log("info", `got crm command: disarm-ha ${mode}`);
    this.#arming = false;
    this.#suspended = false;
    this.#status.disarm = { mode, state: "pending" };
  }

  arm(): void {
    if (this.#status.disarm === undefined) {
      this.#env.log("info", "ignoring arm-ha command - HA stack is not disarmed");
      return;
    }
    this.#env.log("info", "got crm command: arm-ha");
    this.#arming = true;
  }

  /** True while services are to be left alone. */
  holds(freeze: (sid: string, state: ServiceState) => void): boolean {
    const { disarm, services } = this.#status;
    this.#deferred = false;
    if (disarm === undefined) return false;
    if (this.#arming) return disarm.mode === "freeze" || !this.#resume();
    const sids = Object.keys(services).toSorted();
    for (const sid of sids) {
      if (services[sid]?.state !== "fence") continue;
      this.#env.log("warning", `deferring disarm - service '${sid}' is in 'fence' state`);
      this.#deferred = true;
    }
    if (this.#deferred) return true;
    for (const sid of sids) {
      const service = services[sid];
      if (service === undefined) continue;
      if (disarm.mode === "ignore") {
        if (!this.#suspended) this.#env.log("info", `disarm: suspending HA tracking for service '${sid}'`);
      } else if (!["freeze", "error", "recovery"].includes(service.state)) {
        this.#settleMove(sid);
        this.#env.log("info", `disarm: freezing service '${sid}' (was '${service.state}')`);
        freeze(sid, "freeze");
      }
    }
    this.#suspended = true;
    return true;
  }

  finish(nodes: NodeStates): void {
    const { disarm } = this.#status;
    if (disarm === undefined) return;
    if (this.#arming) {
      this.#env.log("info", "re-arming HA stack");
      this.#arming = false;
      this.#status.disarm = undefined;
      return;
    }
    if (disarm.state === "disarmed" || this.#deferred) return;
    const released = nodes.online().every((node) => {
      const state = this.#env.localStatus(node)?.state;
      return state === undefined || state === "wait_for_agent_lock";
    });
    if (!released) return;
    disarm.state = "disarmed";
    this.#env.log("info", "all LRMs disarmed, HA stack is now fully disarmed");
    this.#env.log("info", "HA stack fully disarmed, releasing CRM watchdog");
  }

  /** A move that is done but not yet noted would otherwise be frozen on the wrong node. */
  #settleMove(sid: string): void {
    const service = this.#status.services[sid];
    if (service?.target === undefined) return;
    const exit = this.#env.localStatus(service.node)?.results[service.uid]?.exit;
    if (exit === "success") service.node = service.target;
  }

  /** The operator may have moved services by hand: what is configured now is where they are. */
  #resume(): true {
    const config = this.#env.services();
    for (const [sid, service] of Object.entries(this.#status.services).toSorted(([a], [b]) =>
      a < b ? -1 : 1,
    )) {
      const node = config.get(sid)?.node;
      if (node === undefined || node === service.node) continue;
      const from = `updating node '${service.node}' => '${node}'`;
      this.#env.log("info", `service '${sid}': ${from} (changed while disarmed)`);
      service.node = node;
      service.target = undefined;
    }
    return true;
  }
}
