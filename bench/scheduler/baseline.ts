// What is measured beside ours: best fit, as a first scheduler would be written. Of the nodes with enough CPU and memory
// the one that has least to spare. It knows no rules.
import type { PlacementRequest, SchedulerNode } from "../../packages/domain/src/scheduler/model.ts";

interface Row {
  readonly name: string;
  cpu: number;
  memory: number;
}

export class BestFit {
  readonly #rows: Row[];

  constructor(nodes: readonly SchedulerNode[]) {
    this.#rows = nodes.map(({ name, allocatable }) => ({ name, ...allocatable }));
  }

  place({ demand }: PlacementRequest): string | undefined {
    let best: Row | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const row of this.#rows) {
      if (row.cpu < demand.cpu || row.memory < demand.memory) continue;
      const left = row.cpu - demand.cpu + (row.memory - demand.memory) / 2 ** 31;
      if (left < least) [best, least] = [row, left];
    }
    if (best === undefined) return undefined;
    best.cpu -= demand.cpu;
    best.memory -= demand.memory;
    return best.name;
  }
}
