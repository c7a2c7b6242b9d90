// The manager: one round reads what is wanted and what the local managers did, and moves every service one step on.
import { given } from "@gpve/contracts/given.ts";
import { rulesInForce, type CompiledRules } from "./compile-rules.ts";
import { Disarming } from "./disarming.ts";
import type { HaEnvironment } from "./environment.ts";
import { readCommands } from "./manager-commands.ts";
import type { ManagerStatus, ServiceConfig, ServiceState, ServiceStatus } from "./model.ts";
import { NodeStates } from "./node-states.ts";
import { ServiceRebalancer } from "./rebalancer.ts";
import type { Placement } from "./select-node.ts";
import { advance } from "./service-states.ts";
import type { ServiceStep } from "./service-step.ts";
import { Usage } from "./usage.ts";

export class Manager {
  readonly #env: HaEnvironment;
  readonly #status: ManagerStatus;
  readonly #nodes: NodeStates;
  readonly #disarming: Disarming;
  readonly #rebalancer = new ServiceRebalancer();
  #orders = 0;
  #changed = false;
  #saidDropped = "";
  /** Of this round; who asks most is a round in which nothing changes. */
  #rules: CompiledRules | undefined;
  #placed: Placement | undefined;

  constructor(env: HaEnvironment) {
    this.#env = env;
    this.#status = structuredClone(env.managerStatus());
    this.#nodes = new NodeStates(env, this.#status.nodes);
    this.#disarming = new Disarming(env, this.#status);
    const { scheduler } = env.settings();
    if (scheduler !== "basic") env.log("info", `using scheduler mode '${scheduler}'`);
  }

  isEmpty(): boolean {
    return Object.keys(this.#status.services).length === 0;
  }

  /** True when the whole stack is disarmed and no watchdog is needed. */
  round(): boolean {
    const env = this.#env;
    this.#checkReadable();
    this.#rules = undefined;
    this.#placed = undefined;
    const members = env.members();
    this.#nodes.update(members);
    // The next one of its name begins anew.
    for (const node of Object.keys(this.#status.maintenance))
      if (!members.has(node)) delete this.#status.maintenance[node];
    const config = env.services();
    this.#recallFences(config);
    this.#adopt(config);
    const fenced = new Set<string>();
    const context: ServiceStep = {
      env,
      nodes: this.#nodes,
      config,
      fenced,
      placement: () => this.#placement(config),
      change: (sid, state, details) => this.#change(sid, state, details),
    };
    readCommands(context, this.#status, this.#disarming, this.#rebalancer.round(context, this.#status));
    this.#withdrawFences();
    if (this.#disarming.holds((sid, state) => this.#setState(sid, state, {}))) {
      this.#fenceUnderDisarm(context);
    } else {
      // Arming may have found them elsewhere.
      this.#placed = undefined;
      this.#advanceAll(context);
    }
    this.#disarming.finish(this.#nodes);
    this.#status.masterNode = env.node;
    this.#status.nodes = this.#nodes.toRecord();
    env.saveManagerStatus(structuredClone(this.#status));
    return this.#status.disarm?.state === "disarmed";
  }

  #checkReadable(): void {
    try {
      this.#env.managerStatus();
    } catch (err) {
      this.#env.log("error", `could not read manager status: ${(err as Error).message}`);
      throw err;
    }
  }

  #adopt(config: ReadonlyMap<string, ServiceConfig>): void {
    const { services } = this.#status;
    for (const [sid, { node, state }] of [...config].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (state === "ignored" || services[sid] !== undefined) continue;
      this.#env.log("info", `adding new service '${sid}' on node '${node}'`);
      services[sid] = {
        node,
        state: state === "started" ? "request_start" : "request_stop",
        uid: this.#nextUid(),
      };
    }
    for (const sid of Object.keys(services).toSorted()) {
      const wanted = config.get(sid);
      if (wanted !== undefined && wanted.state !== "ignored") continue;
      const why = wanted === undefined ? "no config" : "ignored state requested";
      this.#env.log("info", `removing stale service '${sid}' (${why})`);
      delete services[sid];
    }
  }

  /** Who was only out of sight has held its lease all the time: its guests run on, and nobody could ever prove otherwise. */
  #recallFences(config: ReadonlyMap<string, ServiceConfig>): void {
    for (const node of this.#nodes.withState("fence")) {
      if (this.#env.keepsLease?.(node) !== true) continue;
      this.#env.log("notice", `node '${node}' was out of sight and has kept its lease: it is not fenced`);
      this.#nodes.seeAgain(node);
      for (const [sid, service] of Object.entries(this.#status.services))
        if (service.state === "fence" && service.node === node)
          this.#change(sid, config.get(sid)?.state === "started" ? "started" : "request_stop");
    }
  }

  /** A node to fence none of whose services wait for it any more needs no fencing. */
  #withdrawFences(): void {
    for (const node of this.#nodes.withState("fence")) {
      const waiting = Object.values(this.#status.services).some(
        (service) => service.state === "fence" && service.node === node,
      );
      if (waiting) continue;
      this.#env.log("notice", `node '${node}' in fence state but no services to-fence! admin interference?!`);
      this.#nodes.fence(node);
    }
  }

  #advanceAll(context: ServiceStep): void {
    // Again as long as something changes, so that a recovery does not wait for the next round; bounded, for safety.
    for (let pass = 0; pass < 8; pass++) {
      this.#changed = false;
      for (const sid of this.#inOrder()) {
        const service = this.#status.services[sid];
        if (service !== undefined) advance(context, sid, service);
      }
      this.#fence(context);
      if (!this.#changed) return;
    }
  }

  /** Those to recover take their turn by what the operator said of them: room may not do for all. */
  #inOrder(): readonly string[] {
    const order = (sid: string): number => this.#env.recoveryOrder?.(sid) ?? 0;
    return Object.keys(this.#status.services)
      .toSorted()
      .toSorted((a, b) => order(a) - order(b));
  }

  /** Services that wait for a fence cannot be frozen: their node must be proven dead first. */
  #fenceUnderDisarm(context: ServiceStep): void {
    if (this.#status.disarm?.state === "disarmed" || this.#nodes.withState("fence").length === 0) return;
    this.#fence(context);
    for (const sid of Object.keys(this.#status.services).toSorted()) {
      for (const state of ["fence", "recovery"]) {
        const service = this.#status.services[sid];
        if (service?.state === state) advance(context, sid, service);
      }
    }
  }

  #fence(context: ServiceStep): void {
    const waiting = Object.entries(this.#status.services).filter(([, { state }]) => state === "fence");
    for (const node of [...new Set(waiting.map(([, service]) => service.node))].toSorted()) {
      if (context.fenced.has(node) || !this.#nodes.fence(node)) continue;
      context.fenced.add(node);
      this.#changed = true;
      this.#placed = undefined;
    }
  }

  #change(sid: string, state: ServiceState, details: Partial<ServiceStatus> = {}): void {
    const service = this.#status.services[sid];
    if (service === undefined) return;
    const before = service.state;
    this.#setState(sid, state, details);
    const text = Object.entries(details)
      .filter(([key, value]) => value !== undefined && ["node", "target", "timeoutS"].includes(key))
      .map(([key, value]) => `${key === "timeoutS" ? "timeout" : key} = ${value as string | number}`);
    const after = text.length === 0 ? "" : `  (${text.join(", ")})`;
    if (before !== state) {
      this.#env.log("info", `service '${sid}': state changed from '${before}' to '${state}'${after}`);
    }
    this.#changed = true;
  }

  #setState(sid: string, state: ServiceState, details: Partial<ServiceStatus>): void {
    const service = this.#status.services[sid];
    if (service === undefined) return;
    const { failedNodes, maintenanceNode } = service;
    this.#placed = undefined;
    this.#status.services[sid] = {
      node: service.node,
      ...given({ failedNodes, maintenanceNode }),
      ...details,
      state,
      uid: this.#nextUid(),
    };
  }

  /** Unique over masters: each names itself and the time it began the order. */
  #nextUid(): string {
    return `${this.#env.node}-${this.#env.now()}-${++this.#orders}`;
  }

  #placement(config: ReadonlyMap<string, ServiceConfig>): Placement {
    if (this.#placed !== undefined) return this.#placed;
    const online = this.#nodes.online();
    const usage = new Usage(this.#env, online);
    for (const [sid, service] of Object.entries(this.#status.services)) usage.add(sid, service);
    this.#rules ??= this.#compile(config);
    const closed = new Set(online.filter((node) => this.#env.isClosed?.(node) === true));
    this.#placed = { rules: this.#rules, usage, online, closed, services: this.#status.services, config };
    return this.#placed;
  }

  #compile(config: ReadonlyMap<string, ServiceConfig>): CompiledRules {
    const rules = rulesInForce(this.#env, config);
    const dropped = rules.dropped.map(({ id, reason }) => `ignoring rule '${id}', because ${reason}`);
    if (dropped.join() !== this.#saidDropped) for (const text of dropped) this.#env.log("notice", text);
    this.#saidDropped = dropped.join();
    return rules;
  }
}
