// Plans of moves: first what puts right a rule that does not hold, by name; then, where nodes have been filled unevenly
// for long enough, what evens them out, as long as each move is worth it. Each step fits in after those before it.
import type { ClusterState } from "./cluster-state.ts";
import { decidePlacement } from "./decide.ts";
import { explain, refusalText } from "./explain.ts";
import type { PlacedGuest } from "./model.ts";
import type { Policy } from "./policy.ts";
import { round } from "./words.ts";

export interface Violation {
  /** The rule: NodeAffinity, TaintToleration, GuestAffinity, TopologySpread, NodeResourcesFit, … */
  readonly rule: string;
  readonly guest: string;
  readonly node: string;
  readonly why: string;
}

export interface Move {
  readonly guest: string;
  readonly from: string;
  readonly to: string;
  /** The rule that it puts right, or Balance. */
  readonly rule: string;
  readonly why: string;
}

export interface RebalancePlan {
  readonly violations: readonly Violation[];
  readonly moves: readonly Move[];
  /** Violations that no move puts right. */
  readonly unsolved: readonly Violation[];
  /** Between the fullest node and the emptiest, in percent of a node. */
  readonly imbalance: { readonly before: number; readonly after: number };
}

export interface RebalanceOptions {
  readonly maxMoves: number;
  /** Percent between the fullest node and the emptiest from which on it is worth evening out. */
  readonly threshold: number;
  /** Percent by which a move must even things out. */
  readonly margin: number;
  /** Uneven for so many rounds in a row; see `steadyRounds`. */
  readonly balance: boolean;
  /** Guests that were moved lately and stay. */
  readonly resting: ReadonlySet<string>;
  /** What is not moved, and why. */
  readonly immovable: ReadonlyMap<string, string>;
}

/** What a guest is not moved for: it is there, and nobody is ended because nodes are closed to newcomers. */
const NO_VIOLATION = new Set(["NodeReady", "NodeUnschedulable", "EnoughCpus", "StorageRoom", "NumaFit"]);

export function planRebalance(
  before: ClusterState,
  policy: Policy,
  options: RebalanceOptions,
): RebalancePlan {
  const state = before.clone();
  const violations = violationsOf(state, policy);
  const moves: Move[] = [];
  const unsolved: Violation[] = [];
  for (const violation of violations) {
    const guest = state.guest(violation.guest);
    // Put right by a move before this one.
    if (guest === undefined || !stillBroken(state, guest, violation.rule, policy)) continue;
    const mayMove = moves.length < options.maxMoves && !options.immovable.has(violation.guest);
    const to = mayMove ? betterNode(state, guest, policy) : undefined;
    if (to === undefined) {
      unsolved.push({
        ...violation,
        why: `${violation.why}; ${whyNoMove(state, guest, policy, moves, options)}`,
      });
      continue;
    }
    state.place({ ...guest, node: to });
    moves.push({ guest: violation.guest, from: guest.node, to, rule: violation.rule, why: violation.why });
  }
  const imbalance = imbalanceOf(before);
  if (options.balance && imbalanceOf(state) > options.threshold) evenOut(state, policy, options, moves);
  return { violations, moves, unsolved, imbalance: { before: imbalance, after: imbalanceOf(state) } };
}

/** How many rounds in a row nodes have been uneven: one busy moment moves nobody. */
export function steadyRounds(rounds: number, imbalance: number, threshold: number): number {
  return imbalance > threshold ? rounds + 1 : 0;
}

/** Rules that do not hold for guests that are there, or for one of them; most important first. */
export function violationsOf(state: ClusterState, policy: Policy, id?: string): readonly Violation[] {
  const found: Violation[] = [];
  const guests = id === undefined ? [...state.guests()].toSorted(byId) : [state.guest(id) ?? []].flat();
  for (const guest of guests) {
    if (!guest.counts || state.indexOf(guest.node) === undefined) continue;
    for (const { filter, why } of brokenRules(state, guest, policy))
      found.push({ rule: filter, guest: guest.request.id, node: guest.node, why });
  }
  const order = new Map(policy.filters.map(({ name }, at) => [name, at]));
  const rank = ({ rule }: Violation): number => order.get(rule) ?? order.size;
  return found.toSorted((a, b) => rank(a) - rank(b));
}

/** Percent between the fullest node and the emptiest of those that take part. */
export function imbalanceOf(state: ClusterState): number {
  const loads = loadsOf(state);
  if (loads.length < 2) return 0;
  return round(100 * (Math.max(...loads) - Math.min(...loads)));
}

function brokenRules(
  state: ClusterState,
  guest: PlacedGuest,
  policy: Policy,
): readonly { readonly filter: string; readonly why: string }[] {
  state.remove(guest.request.id);
  const verdict = explain(state, guest.request, policy).verdicts.find(({ node }) => node === guest.node);
  state.place(guest);
  return (verdict?.refusals ?? []).filter(({ filter }) => !NO_VIOLATION.has(filter));
}

function stillBroken(state: ClusterState, guest: PlacedGuest, rule: string, policy: Policy): boolean {
  return brokenRules(state, guest, policy).some(({ filter }) => filter === rule);
}

function betterNode(state: ClusterState, guest: PlacedGuest, policy: Policy): string | undefined {
  state.remove(guest.request.id);
  const { node } = decidePlacement(state, guest.request, policy);
  state.place(guest);
  return node === guest.node ? undefined : node;
}

function whyNoMove(
  state: ClusterState,
  guest: PlacedGuest,
  policy: Policy,
  moves: readonly Move[],
  { maxMoves, immovable }: RebalanceOptions,
): string {
  const why = immovable.get(guest.request.id);
  if (why !== undefined) return why;
  if (moves.length >= maxMoves) return `the plan has its ${maxMoves} moves already`;
  state.remove(guest.request.id);
  const decision = decidePlacement(state, guest.request, policy);
  state.place(guest);
  return refusalText(decision);
}

/** From the fullest node, whatever evens things out most, while it is worth it. */
function evenOut(state: ClusterState, policy: Policy, options: RebalanceOptions, moves: Move[]): void {
  const moved = new Set(moves.map(({ guest }) => guest));
  while (moves.length < options.maxMoves && imbalanceOf(state) > options.threshold) {
    const step = bestStep(
      state,
      policy,
      (id) => moved.has(id) || options.resting.has(id) || options.immovable.has(id),
    );
    if (step === undefined || step.gain < options.margin) return;
    const { guest, to } = step;
    const from = imbalanceOf(state);
    state.place({ ...guest, node: to });
    moved.add(guest.request.id);
    moves.push({
      guest: guest.request.id,
      from: guest.node,
      to,
      rule: "Balance",
      why: `evens nodes out by ${round(step.gain)} %: ${from} % between the fullest and the emptiest become ${imbalanceOf(state)} %`,
    });
  }
}

interface Step {
  readonly guest: PlacedGuest;
  readonly to: string;
  /** Percent of unevenness that it takes away. */
  readonly gain: number;
}

function bestStep(state: ClusterState, policy: Policy, stays: (id: string) => boolean): Step | undefined {
  const spread = deviation(loadsOf(state));
  const fullest = state.nodes
    .map((node, at) => ({ at, load: takesPart(state, at) ? loadAt(state, at) : -1, name: node.name }))
    .toSorted((a, b) => b.load - a.load)[0];
  if (fullest === undefined || spread === 0) return undefined;
  let best: Step | undefined;
  for (const guest of state.guestsOn(fullest.at).toSorted(byId)) {
    if (!guest.counts || stays(guest.request.id)) continue;
    state.remove(guest.request.id);
    const { verdicts } = explain(state, guest.request, policy);
    for (const { node, refusals } of verdicts) {
      if (refusals.length > 0 || node === guest.node) continue;
      state.place({ ...guest, node });
      const gain = (100 * (spread - deviation(loadsOf(state)))) / spread;
      state.remove(guest.request.id);
      if (best === undefined || gain > best.gain + 1e-9) best = { guest, to: node, gain };
    }
    state.place(guest);
  }
  return best;
}

function takesPart({ nodes }: ClusterState, at: number): boolean {
  const node = nodes[at];
  return node !== undefined && node.away === undefined && !node.unschedulable && node.inMaintenance !== true;
}

function loadAt(state: ClusterState, at: number): number {
  const cpu = (state.cpuUsed[at] ?? 0) / (state.cpu[at] || 1);
  const memory = (state.memoryUsed[at] ?? 0) / (state.memory[at] || 1);
  return Math.max(cpu, memory);
}

function loadsOf(state: ClusterState): readonly number[] {
  return state.nodes.flatMap((_node, at) => (takesPart(state, at) ? [loadAt(state, at)] : []));
}

function deviation(values: readonly number[]): number {
  if (values.length === 0) return 0;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
}

function byId(a: PlacedGuest, b: PlacedGuest): number {
  return a.request.id < b.request.id ? -1 : 1;
}
