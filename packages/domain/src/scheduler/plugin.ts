// The parts that filters and scores are made of. A part is prepared once for a request and then asked about every node
// by number; one that has nothing to say about a request is left out.
import type { ClusterState } from "./cluster-state.ts";
import type { PlacementRequest, SchedulerNode, Strategy } from "./model.ts";

export interface Question {
  readonly state: ClusterState;
  readonly request: PlacementRequest;
  readonly strategy: Strategy;
}

export interface PreparedFilter {
  refuses(node: number): boolean;
  /** For a node that is refused: why, and what would change it. */
  why(node: number): string;
  /** The same for many, as the function of that name does. */
  sift?(nodes: Int32Array, count: number): number;
}

export interface Filter {
  readonly name: string;
  /** Looks at nodes alone, not at what is placed there: its answers are kept by `shape`. */
  readonly shape?: (question: Question) => unknown;
  /** What of a request's rules it stands for: such a request is refused where the filter is switched off. */
  readonly standsFor?: (question: Question) => boolean;
  /** What cannot work is no matter of policy: it stays on. */
  readonly always?: true;
  prepare(question: Question): PreparedFilter | undefined;
}

export interface PreparedScore {
  /** One number for each of `nodes`: 0 to 100; with `lowerIsBetter` any, compared among the nodes that are left. */
  fill(nodes: Int32Array, parts: Float64Array): void;
  readonly lowerIsBetter?: true;
}

export interface Score {
  readonly name: string;
  prepare(question: Question): PreparedScore | undefined;
}

/** An operator's own, by expression or by what an extender answered. */
export interface CustomPlugin {
  readonly name: string;
  /** A text = why not. */
  readonly refuse?: (
    node: SchedulerNode,
    request: PlacementRequest,
    figures: NodeFigures,
  ) => string | undefined;
  /** 0 to 100. */
  readonly score?: (node: SchedulerNode, request: PlacementRequest, figures: NodeFigures) => number;
  readonly weight: number;
}

/** Asks others about the nodes that are left; what they say is a plugin for this one request. */
export type Extend = (
  request: PlacementRequest,
  candidates: readonly string[],
  signal: AbortSignal,
) => Promise<readonly CustomPlugin[]>;

export interface NodeFigures {
  readonly cpuUsed: number;
  readonly memoryUsed: number;
  readonly gpusUsed: number;
  readonly guests: number;
}

/** Leaves those that are not refused at the front of `nodes`, in order; answers how many. */
export function sift(filter: PreparedFilter, nodes: Int32Array, count: number): number {
  if (filter.sift !== undefined) return filter.sift(nodes, count);
  let left = 0;
  for (let index = 0; index < count; index++) {
    const at = nodes[index] ?? 0;
    if (!filter.refuses(at)) nodes[left++] = at;
  }
  return left;
}

/** Node by node: for what is asked seldom. What is asked of every request has a loop of its own, which is much faster. */
export function eachNode(of: (node: number) => number): PreparedScore["fill"] {
  return (nodes, parts) => {
    for (let index = 0; index < nodes.length; index++) parts[index] = of(nodes[index] ?? 0);
  };
}

export function nodeAt({ state }: Question, at: number): SchedulerNode {
  const node = state.nodes[at];
  if (node === undefined) throw new RangeError(`there is no node number ${at}`);
  return node;
}
