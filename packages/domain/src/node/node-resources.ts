// What a node has, what of it guests may have, and what they have: the same figures for people, metrics and placement.
import type { NodeReserve, NodeView } from "./runtime.ts";

/** What agent.yaml has when it says nothing: CPUs of guests are mostly idle, memory is not. */
const NO_RESERVE: NodeReserve = { cpu: 0, memoryBytes: 0, overcommit: { cpu: 4, memory: 1 } };

/** Bytes where not said otherwise. */
export interface Resources {
  readonly cpu: number;
  readonly memory: number;
  readonly storage: Readonly<Record<string, number>>;
  readonly gpus: number;
}

export interface NodeResources {
  readonly capacity: Resources;
  /** (capacity - reserve) x overcommit; of storages what they have in all. */
  readonly allocatable: Resources;
  /** What running guests may use at most, and what is stored. May be more than allocatable: nobody is ended for it. */
  readonly allocated: Resources;
}

/** A guest as far as it takes of its node. */
export interface NodeTenant {
  readonly cpus: number;
  readonly maxmem: number;
  readonly gpus: number;
}

/** undefined = the node has not said what it is. */
export function nodeResources(
  view: NodeView | undefined,
  running: readonly NodeTenant[],
): NodeResources | undefined {
  const { facts, report } = view ?? {};
  if (facts === undefined || report === undefined) return undefined;
  const { cpu: ownCpu, memoryBytes: ownMemory, overcommit } = report.reserve ?? NO_RESERVE;
  const storages = report.storages.filter(({ active }) => active);
  const capacity: Resources = {
    cpu: facts.cpu.cpus,
    memory: facts.memoryBytes,
    storage: Object.fromEntries(storages.map(({ storage, totalBytes }) => [storage, totalBytes])),
    gpus: facts.gpus.length,
  };
  return {
    capacity,
    allocatable: {
      ...capacity,
      cpu: round(Math.max(0, capacity.cpu - ownCpu) * overcommit.cpu),
      memory: Math.floor(Math.max(0, capacity.memory - ownMemory) * overcommit.memory),
    },
    allocated: {
      cpu: sum(running.map(({ cpus }) => cpus)),
      memory: sum(running.map(({ maxmem }) => maxmem)),
      storage: Object.fromEntries(storages.map(({ storage, usedBytes }) => [storage, usedBytes])),
      gpus: sum(running.map(({ gpus }) => gpus)),
    },
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Thousandths are enough of a CPU. */
function round(cpus: number): number {
  return Math.round(cpus * 1000) / 1000;
}
