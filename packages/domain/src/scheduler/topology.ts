// Places that nodes share, by label, and how far apart nodes are. Nodes are numbers here: their index in the state.
//
// Hops are levels of `topology.gpve.io/*` labels, nearest first, as far as any node has them: 0 on the same node, 1 in the
// same rack, 2 in the same zone, …; one more where not even the outermost is shared.
import { HOSTNAME_LABEL, TOPOLOGY_PREFIX, type SchedulerNode } from "./model.ts";

/** Nearest first. What else stands behind the prefix is a place to spread over, but has no distance. */
const LEVELS = ["rack", "row", "room", "datacenter", "zone", "region"].map(
  (level) => `${TOPOLOGY_PREFIX}${level}`,
);

export interface Topology {
  /** Of each node; -1 = it has no such label. */
  readonly placeOf: Int32Array;
  readonly places: readonly string[];
}

export function labelOf(node: SchedulerNode, key: string): string | undefined {
  return key === HOSTNAME_LABEL ? node.name : Object.hasOwn(node.labels, key) ? node.labels[key] : undefined;
}

export function topologyBy(
  nodes: readonly SchedulerNode[],
  valueOf: (node: SchedulerNode) => string | undefined,
): Topology {
  const index = new Map<string, number>();
  const placeOf = new Int32Array(nodes.length).fill(-1);
  for (const [at, node] of nodes.entries()) {
    const value = valueOf(node);
    if (value === undefined) continue;
    let place = index.get(value);
    if (place === undefined) index.set(value, (place = index.size));
    placeOf[at] = place;
  }
  return { placeOf, places: [...index.keys()] };
}

/** Keys of the levels in use, nearest first. */
export function levelsOf(nodes: readonly SchedulerNode[]): readonly string[] {
  return LEVELS.filter((key) => nodes.some((node) => labelOf(node, key) !== undefined));
}

/** Rack 1 of one zone is not rack 1 of another: a level is shared where all outer ones are. */
export function nestedValue(
  node: SchedulerNode,
  levels: readonly string[],
  level: number,
): string | undefined {
  const values = levels.slice(level).map((key) => labelOf(node, key));
  return values[0] === undefined ? undefined : JSON.stringify(values);
}
