// The same decision with all its reasons: every node, every filter that refuses it, every score it gets.
import type { ClusterState } from "./cluster-state.ts";
import { decidePlacement, partsOf, prepare, totalsOf, type PlacementDecision } from "./decide.ts";
import type { PlacementRequest, Strategy } from "./model.ts";
import type { Policy } from "./policy.ts";
import { round } from "./words.ts";

export interface FilterRefusal {
  readonly filter: string;
  readonly why: string;
}

export interface NodeVerdict {
  readonly node: string;
  readonly refusals: readonly FilterRefusal[];
  /** Of nodes that could take it: 0 to 100, with what it is made of. */
  readonly score?: number;
  readonly parts?: Readonly<Record<string, number>>;
}

export interface Explanation extends PlacementDecision {
  readonly strategy: Strategy;
  /** Weights of what `parts` has. */
  readonly weights: Readonly<Record<string, number>>;
  /** Best first, then those that are refused, by name. */
  readonly verdicts: readonly NodeVerdict[];
}

export function explain(state: ClusterState, request: PlacementRequest, policy: Policy): Explanation {
  const decision = decidePlacement(state, request, policy);
  const prepared = prepare(state, request, policy);
  const { question, kept, filters, scores } = prepared;
  const all = [
    ...kept.flatMap((filter) => {
      const found = filter.prepare(question);
      return found === undefined ? [] : [{ name: filter.name, ...found }];
    }),
    ...filters,
  ];
  const refusalsOf = (at: number): readonly FilterRefusal[] =>
    all.filter((each) => each.refuses(at)).map((each) => ({ filter: each.name, why: each.why(at) }));
  const refusals = state.nodes.map((_node, at) => refusalsOf(at));
  const feasible = Int32Array.from([...refusals.keys()].filter((at) => refusals[at]?.length === 0));
  const totals = totalsOf(scores, feasible);
  const parts = scores.map((score) => [score.name, partsOf(score, feasible)] as const);
  const taken = [...feasible].map((at, index): NodeVerdict => ({
    node: state.nodes[at]?.name ?? "",
    refusals: [],
    score: round(totals[index] ?? 0),
    parts: Object.fromEntries(parts.map(([name, values]) => [name, round(values[index] ?? 0)])),
  }));
  const isChosen = ({ node }: NodeVerdict): number => Number(node === decision.node);
  return {
    ...decision,
    strategy: question.strategy,
    weights: Object.fromEntries(scores.map(({ name, weight }) => [name, weight])),
    verdicts: [
      ...taken.toSorted((a, b) => isChosen(b) - isChosen(a) || (b.score ?? 0) - (a.score ?? 0)),
      ...state.nodes.flatMap(({ name: node }, at) =>
        (refusals[at] ?? []).length === 0 ? [] : [{ node, refusals: refusals[at] ?? [] }],
      ),
    ],
  };
}

/** As if it were not there yet: for what has a place already, or is promised one. */
export function explainAnew(state: ClusterState, request: PlacementRequest, policy: Policy): Explanation {
  const standing = state.guest(request.id);
  state.remove(request.id);
  try {
    return explain(state, request, policy);
  } finally {
    if (standing !== undefined) state.place(standing);
  }
}

/** For who may not see nodes: how many, and what stood against them. */
export function refusalText({ nodes, refused }: Pick<PlacementDecision, "nodes" | "refused">): string {
  if (nodes === 0) return "the cluster has no nodes";
  const parts = Object.entries(refused)
    .toSorted(([a, many], [b, few]) => few - many || (a < b ? -1 : 1))
    .map(([filter, count]) => `${count} by ${filter}`);
  return `0 of ${nodes} nodes can take it: ${parts.join(", ")}`;
}
