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
  /** The same for many: leaves those that are not refused at the front of `nodes`, in order; answers how many. */
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
  /** 0 to 100; with `lowerIsBetter` any number, compared among the nodes that are left. */
  of(node: number): number;
  readonly lowerIsBetter?: true;
  /** The same for many. */
  fill?(nodes: Int32Array, parts: Float64Array): void;
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

export function nodeAt({ state }: Question, at: number): SchedulerNode {
  const node = state.nodes[at];
  if (node === undefined) throw new RangeError(`there is no node number ${at}`);
  return node;
}
