// How loaded each node is by services that are or will be there, and which node would take one more best.
import type { HaEnvironment } from "./environment.ts";
import type { Load, ServiceStatus } from "./model.ts";
import { closenessToIdeal } from "./topsis.ts";

/** Where a service weighs: not before it is to start, and on both ends of a move. */
export function nodesUsedBy(service: ServiceStatus): readonly string[] {
  switch (service.state) {
    case "stopped":
    case "request_start":
      return [];
    case "request_start_balance":
      return [service.target ?? service.node];
    case "migrate":
    case "relocate":
      return service.target === undefined ? [service.node] : [service.node, service.target];
    case "started":
    case "request_stop":
    case "freeze":
    case "fence":
    case "recovery":
    case "error":
      return [service.node];
  }
}

/** Also one that is off: it would be started there. Who is on its way elsewhere is in nobody's way. */
export function staysOn(service: ServiceStatus, node: string): boolean {
  return service.target === undefined ? service.node === node : service.target === node;
}

interface NodeUse {
  readonly capacity: Load;
  count: number;
  cpu: number;
  memory: number;
}

export class Usage {
  readonly #env: HaEnvironment;
  readonly #nodes = new Map<string, NodeUse>();

  constructor(env: HaEnvironment, online: Iterable<string>) {
    this.#env = env;
    for (const node of [...online].toSorted()) {
      this.#nodes.set(node, { capacity: env.nodeCapacity(node), count: 0, cpu: 0, memory: 0 });
    }
  }

  add(sid: string, service: ServiceStatus): void {
    const measured = this.#measured() && this.#runs(service);
    const load = this.#env.serviceLoad(sid, measured);
    for (const node of nodesUsedBy(service)) {
      const use = this.#nodes.get(node);
      if (use === undefined) continue;
      use.count++;
      use.cpu += measured ? load.cpu : cpuOf(load, use.capacity);
      use.memory += load.memory;
    }
  }

  /** Lower is better. */
  scores(sid: string): ReadonlyMap<string, number> {
    if (this.#env.settings().scheduler === "basic") {
      return new Map([...this.#nodes].map(([node, use]) => [node, use.count]));
    }
    const names = [...this.#nodes.keys()];
    const closeness = closenessToIdeal(
      names.map((name) => this.#criteriaWith(sid, name)),
      startWeights,
    );
    return new Map(names.map((name, index) => [name, -(closeness[index] ?? 0)]));
  }

  #measured(): boolean {
    return this.#env.settings().scheduler === "dynamic";
  }

  /** Before it runs it uses nothing, which says nothing of what it will use. */
  #runs({ state, node, uid }: ServiceStatus): boolean {
    if (state !== "started") return state !== "request_start_balance";
    return this.#env.localStatus(node)?.results[uid]?.exit === "success";
  }

  /** The cluster as it would be with the service on that node, using all that it may: mean and peak of both resources. */
  #criteriaWith(sid: string, target: string): readonly number[] {
    const load = this.#env.serviceLoad(sid, false);
    let [cpuSquares, cpuPeak, memorySquares, memoryPeak] = [0, 0, 0, 0];
    for (const [name, use] of this.#nodes) {
      const here = name === target;
      const cpu = (use.cpu + (here ? cpuOf(load, use.capacity) : 0)) / use.capacity.cpu;
      const memory = (use.memory + (here ? load.memory : 0)) / use.capacity.memory;
      cpuSquares += cpu ** 2;
      memorySquares += memory ** 2;
      cpuPeak = Math.max(cpuPeak, cpu);
      memoryPeak = Math.max(memoryPeak, memory);
    }
    const count = this.#nodes.size;
    // One is added so that tiny loads do not look far apart: 0.004 is twice 0.002, 1.004 is next to 1.002.
    return [
      1 + Math.sqrt(cpuSquares / count),
      1 + cpuPeak,
      1 + Math.sqrt(memorySquares / count),
      1 + memoryPeak,
    ];
  }
}

/** Memory counts for more than processor time, which can be shared; peaks for more than means. */
const startWeights = [-1, -2, -5, -10];

/** Configured: no processor limit means all of them. */
function cpuOf(load: Load, capacity: Load): number {
  return load.cpu === 0 ? capacity.cpu : load.cpu;
}
