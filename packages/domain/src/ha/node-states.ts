// What the manager thinks of each node, and since when it has not seen it.
import type { HaEnvironment } from "./environment.ts";
import { agentLock } from "./model.ts";
import type { NodeState } from "./model.ts";

/** Long after all that it had is recovered. */
const FORGOTTEN_AFTER_S = 3600;

export class NodeStates {
  readonly #env: HaEnvironment;
  readonly #states: Map<string, NodeState>;
  readonly #lastOnline = new Map<string, number>();
  readonly #unguarded = new Set<string>();

  constructor(env: HaEnvironment, states: Readonly<Record<string, NodeState>>) {
    this.#env = env;
    this.#states = new Map(Object.entries(states));
  }

  of(node: string): NodeState {
    return this.#states.get(node) ?? "unknown";
  }

  isOnline(node: string): boolean {
    return this.of(node) === "online";
  }

  /** Its local manager works, though it may not be given anything new. */
  isOperational(node: string): boolean {
    return this.of(node) === "online" || this.of(node) === "maintenance";
  }

  online(): readonly string[] {
    return [...this.#states.keys()].filter((node) => this.isOnline(node)).toSorted();
  }

  withState(state: NodeState): readonly string[] {
    return [...this.#states.keys()].filter((node) => this.of(node) === state).toSorted();
  }

  toRecord(): Record<string, NodeState> {
    return Object.fromEntries([...this.#states].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Away for so long that its services are to be fenced. */
  isLost(node: string): boolean {
    if (this.isOnline(node)) return false;
    if (this.#env.localStatus(node)?.guarded === false) {
      this.#sayUnguarded(node);
      return false;
    }
    const since = this.#lastOnline.get(node);
    if (since === undefined) {
      this.#lastOnline.set(node, this.#env.now());
      return false;
    }
    return this.#env.now() - since >= this.#env.timings.fenceDelayS;
  }

  #sayUnguarded(node: string): void {
    if (this.#unguarded.has(node)) return;
    this.#unguarded.add(node);
    this.#env.log(
      "error",
      `node '${node}' is away and had guests without lease and watchdog: they cannot be proven stopped, waiting for it`,
    );
  }

  update(members: ReadonlyMap<string, boolean>): void {
    for (const [node, here] of [...members].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      const state = this.of(node);
      if (!here) {
        if (state === "online") this.set(node, "unknown");
        else if (!this.#states.has(node)) this.#states.set(node, "unknown");
        if (!this.#lastOnline.has(node)) this.#lastOnline.set(node, this.#env.now());
        continue;
      }
      // A node that is being fenced stays so until its lock proves that nothing runs there.
      if (state === "fence") continue;
      this.#lastOnline.set(node, this.#env.now());
      this.#unguarded.delete(node);
      this.set(node, this.#env.localStatus(node)?.mode === "maintenance" ? "maintenance" : "online");
    }
    for (const node of this.#states.keys()) {
      if (members.has(node) || this.of(node) === "fence") continue;
      if (this.of(node) === "gone") this.#forget(node);
      else this.set(node, "gone");
    }
  }

  #forget(node: string): void {
    const since = this.#lastOnline.get(node) ?? this.#env.now();
    this.#lastOnline.set(node, since);
    if (this.#env.now() - since < FORGOTTEN_AFTER_S) return;
    this.#lastOnline.delete(node);
    this.#states.delete(node);
    this.#env.log("notice", `deleting gone node '${node}', not a cluster member anymore.`);
  }

  /** It is not fenced after all. */
  seeAgain(node: string): void {
    this.#lastOnline.set(node, this.#env.now());
    this.set(node, this.#env.localStatus(node)?.mode === "maintenance" ? "maintenance" : "online");
  }

  set(node: string, state: NodeState): void {
    const before = this.of(node);
    if (before === state) return;
    this.#states.set(node, state);
    this.#env.log("info", `node '${node}': state changed from '${before}' => '${state}'`);
  }

  /** True when the node is known to run nothing: its lock, which outlives its watchdog, is ours. */
  fence(node: string): boolean {
    if (this.of(node) !== "fence") {
      this.set(node, "fence");
      this.#env.log("mail", `FENCE: Try to fence node '${node}'`);
    }
    if (!this.#env.lock(agentLock(node))) return false;
    this.#env.log("info", `got lock '${agentLock(node)}'`);
    const evidence = `fencing: acknowledged - got agent lock for node '${node}'`;
    this.#env.log("info", evidence);
    this.set(node, "unknown");
    this.#env.log("mail", `SUCCEED: ${evidence}`);
    return true;
  }
}
