// One decision: filter, score, select. Pure: the same state and request, the same node. Nodes that are equally good are
// told apart by a hash of both names, so that several servers deciding at once do not all take the first.
import { keptRefusals } from "./kept-refusals.ts";
import type { PlacementRequest } from "./model.ts";
import type { ClusterState } from "./cluster-state.ts";
import {
  eachNode,
  sift,
  type CustomPlugin,
  type Filter,
  type NodeFigures,
  type PreparedFilter,
  type PreparedScore,
  type Question,
} from "./plugin.ts";
import type { Policy } from "./policy.ts";

export interface PlacementDecision {
  /** undefined = no node can take it. */
  readonly node: string | undefined;
  readonly score: number;
  /** How many nodes there are, and how many could take it. */
  readonly nodes: number;
  readonly feasible: number;
  /** How many nodes each filter refused first. */
  readonly refused: Readonly<Record<string, number>>;
}

export interface NamedFilter extends PreparedFilter {
  readonly name: string;
}

interface NamedScore extends PreparedScore {
  readonly name: string;
  readonly weight: number;
}

export interface Prepared {
  readonly question: Question;
  readonly kept: readonly Filter[];
  readonly refused: Uint8Array;
  readonly filters: readonly NamedFilter[];
  readonly scores: readonly NamedScore[];
}

/** Scores differ where they differ by more than this: sums of fractions depend on their order. */
const GRAIN = 1e6;

export function decidePlacement(
  state: ClusterState,
  request: PlacementRequest,
  policy: Policy,
): PlacementDecision {
  const prepared = prepare(state, request, policy);
  const { kept, refused, filters } = prepared;
  const nodes = state.nodes.length;
  const counts = new Uint32Array(1 + kept.length + filters.length);
  const { feasible, totals, parts } = state.memo("scratch", () => ({
    feasible: new Int32Array(nodes),
    totals: new Float64Array(nodes),
    parts: new Float64Array(nodes),
  }));
  let found = 0;
  for (let at = 0; at < nodes; at++) {
    const by = refused[at] ?? 0;
    if (by === 0) feasible[found++] = at;
    else counts[by] = (counts[by] ?? 0) + 1;
  }
  for (const [index, filter] of filters.entries()) {
    const left = sift(filter, feasible, found);
    counts[1 + kept.length + index] = found - left;
    found = left;
  }
  sumUp(prepared.scores, feasible.subarray(0, found), totals.subarray(0, found), parts.subarray(0, found));
  let [best, bestScore, bestHash] = [-1, Number.NEGATIVE_INFINITY, 0];
  const seed = hashOf(request.id);
  const hashes = state.memo("hashes", () => Uint32Array.from(state.nodes, ({ name }) => hashOf(name)));
  for (let index = 0; index < found; index++) {
    const score = Math.round((totals[index] ?? 0) * GRAIN);
    if (score < bestScore) continue;
    const at = feasible[index] ?? 0;
    const hash = Math.imul((hashes[at] ?? 0) ^ seed, 0x01000193) >>> 0;
    if (score === bestScore && hash >= bestHash) continue;
    [best, bestScore, bestHash] = [at, score, hash];
  }
  return {
    node: state.nodes[best]?.name,
    score: best < 0 ? 0 : bestScore / GRAIN,
    nodes,
    feasible: found,
    refused: refusedBy([...kept, ...filters], counts),
  };
}

export function prepare(state: ClusterState, request: PlacementRequest, policy: Policy): Prepared {
  const strategy = request.rules.strategy ?? policy.defaultStrategy;
  const question: Question = { state, request, strategy };
  const kept = policy.filters.filter(({ shape }) => shape !== undefined);
  const live = policy.filters.filter(({ shape }) => shape === undefined);
  const filters = [
    ...switchedOff(question, policy),
    ...live.flatMap((filter) => {
      const prepared = filter.prepare(question);
      return prepared === undefined ? [] : [{ name: filter.name, ...prepared }];
    }),
    ...policy.custom.flatMap((plugin) => customFilter(question, plugin)),
  ];
  const scores = [
    ...policy.scores[strategy].flatMap(({ score, weight }) => {
      const prepared = score.prepare(question);
      return prepared === undefined ? [] : [{ name: score.name, weight, ...prepared }];
    }),
    ...policy.custom.flatMap((plugin) => customScore(question, plugin)),
  ];
  return { question, kept, refused: keptRefusals(question, kept), filters, scores };
}

/** Of each node, weighted and on one scale; 0 to 100. */
export function totalsOf(scores: readonly NamedScore[], nodes: Int32Array): Float64Array {
  const totals = new Float64Array(nodes.length);
  sumUp(scores, nodes, totals, new Float64Array(nodes.length));
  return totals;
}

/** One score of each node, 0 to 100. */
export function partsOf(score: PreparedScore, nodes: Int32Array): Float64Array {
  const parts = new Float64Array(nodes.length);
  fillParts(score, nodes, parts);
  return parts;
}

function sumUp(
  scores: readonly NamedScore[],
  nodes: Int32Array,
  totals: Float64Array,
  parts: Float64Array,
): void {
  totals.fill(0);
  const weights = scores.reduce((sum, { weight }) => sum + weight, 0);
  for (const score of scores) {
    if (score.weight === 0) continue;
    fillParts(score, nodes, parts);
    const share = score.weight / weights;
    for (let index = 0; index < parts.length; index++)
      totals[index] = (totals[index] ?? 0) + share * (parts[index] ?? 0);
  }
}

function fillParts(score: PreparedScore, nodes: Int32Array, parts: Float64Array): void {
  score.fill(nodes, parts);
  if (score.lowerIsBetter !== true) return;
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let index = 0; index < parts.length; index++) {
    const value = parts[index] ?? 0;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  const range = most - least;
  for (let index = 0; index < parts.length; index++)
    parts[index] = range === 0 ? 100 : (100 * (most - (parts[index] ?? 0))) / range;
}

function switchedOff(question: Question, policy: Policy): readonly NamedFilter[] {
  return policy.off
    .filter(({ standsFor }) => standsFor?.(question) === true)
    .map(({ name }) => ({
      name,
      refuses: () => true,
      why: () => `its rules need ${name}, which scheduler.plugins.filter of server.yaml leaves out`,
    }));
}

function customFilter(question: Question, { name, refuse }: CustomPlugin): readonly NamedFilter[] {
  if (refuse === undefined) return [];
  const reason = (at: number): string | undefined => {
    const node = question.state.nodes[at];
    return node === undefined ? undefined : refuse(node, question.request, figuresAt(question.state, at));
  };
  return [{ name, refuses: (at) => reason(at) !== undefined, why: (at) => reason(at) ?? "" }];
}

function customScore(question: Question, { name, score, weight }: CustomPlugin): readonly NamedScore[] {
  if (score === undefined) return [];
  const of = (at: number): number => {
    const node = question.state.nodes[at];
    const value = node === undefined ? 0 : score(node, question.request, figuresAt(question.state, at));
    return Number.isFinite(value) ? Math.min(100, Math.max(0, value)) : 0;
  };
  return [{ name, weight, fill: eachNode(of) }];
}

function figuresAt(state: ClusterState, at: number): NodeFigures {
  return {
    cpuUsed: state.cpuUsed[at] ?? 0,
    memoryUsed: state.memoryUsed[at] ?? 0,
    gpusUsed: state.gpusUsed[at] ?? 0,
    guests: state.guestCount(at),
  };
}

function refusedBy(
  filters: readonly { readonly name: string }[],
  counts: Uint32Array,
): Readonly<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const [index, { name }] of filters.entries()) {
    const count = counts[index + 1] ?? 0;
    if (count > 0) found[name] = (found[name] ?? 0) + count;
  }
  return found;
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  return hash;
}
