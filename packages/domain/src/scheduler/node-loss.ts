// What would become of guests if nodes were lost: where they would be started again, in order, and what would not fit. Guests
// are HA's, which says itself what it would do; virtual clusters are placed as the scheduler places them.
import type { ClusterState } from "./cluster-state.ts";
import { explain, type NodeVerdict, refusalText } from "./explain.ts";
import type { PlacedGuest } from "./model.ts";
import type { Policy } from "./policy.ts";

export interface Restarted {
  readonly guest: string;
  readonly from: string;
  readonly to: string;
}

export interface Stranded {
  readonly guest: string;
  readonly from: string;
  readonly why: string;
  readonly verdicts: readonly NodeVerdict[];
}

/** It runs, and nobody would start it elsewhere. */
export interface LeftDown {
  readonly guest: string;
  readonly from: string;
  readonly why: string;
}

export interface LossOutcome {
  readonly restarted: readonly Restarted[];
  readonly stranded: readonly Stranded[];
  readonly down: readonly LeftDown[];
  /** Guests there that did not run: nobody starts them elsewhere. */
  readonly stopped: readonly string[];
}

/** What HA would do with a guest. */
export type HaVerdict =
  | { readonly to: string }
  | { readonly left: string }
  | { readonly refusals: readonly { readonly node: string; readonly why: string }[] };

const NOT_UNDER_HA = "it is not under HA";
const RECOVERY = "Recovery";

/** `recovery`: of the guests that are under HA, in the order in which they have their turn. */
export function simulateLoss(
  before: ClusterState,
  lost: readonly string[],
  policy: Policy,
  recovery: ReadonlyMap<string, HaVerdict>,
): LossOutcome {
  const state = before.clone();
  const there = [...state.guests()].filter(({ node }) => lost.includes(node));
  for (const { request } of there) state.remove(request.id);
  state.setNodes(state.nodes.filter(({ name }) => !lost.includes(name)));
  const outcome = { restarted: [] as Restarted[], stranded: [] as Stranded[], down: [] as LeftDown[] };
  const running = new Map(there.filter(({ counts }) => counts).map((guest) => [guest.request.id, guest]));
  const turns = [...recovery.keys()].flatMap((id) => running.get(id) ?? []);
  for (const guest of turns) recover(state, guest, recovery.get(guest.request.id), outcome);
  for (const guest of [...running.values()].toSorted(inOrder))
    if (guest.request.kind === "vc") placeAnew(state, guest, policy, outcome);
    else if (!recovery.has(guest.request.id))
      outcome.down.push({ guest: guest.request.id, from: guest.node, why: NOT_UNDER_HA });
  const stopped = there.filter(({ counts }) => !counts).map(({ request }) => request.id);
  return { ...outcome, stopped: stopped.toSorted() };
}

interface Growing {
  readonly restarted: Restarted[];
  readonly stranded: Stranded[];
  readonly down: LeftDown[];
}

function recover(
  state: ClusterState,
  guest: PlacedGuest,
  verdict: HaVerdict | undefined,
  outcome: Growing,
): void {
  const what = { guest: guest.request.id, from: guest.node };
  if (verdict === undefined) return;
  if ("to" in verdict) {
    state.place({ ...guest, node: verdict.to });
    outcome.restarted.push({ ...what, to: verdict.to });
  } else if ("left" in verdict) outcome.down.push({ ...what, why: verdict.left });
  else {
    const verdicts = verdict.refusals.map(({ node, why }) => ({
      node,
      refusals: [{ filter: RECOVERY, why }],
    }));
    const why = `none of ${verdicts.length} nodes can take it`;
    outcome.stranded.push({ ...what, why, verdicts });
  }
}

function placeAnew(state: ClusterState, guest: PlacedGuest, policy: Policy, outcome: Growing): void {
  const what = { guest: guest.request.id, from: guest.node };
  const found = guest.tied === undefined ? explain(state, guest.request, policy) : undefined;
  if (found?.node !== undefined) {
    state.place({ ...guest, node: found.node });
    outcome.restarted.push({ ...what, to: found.node });
    return;
  }
  const why = found === undefined ? (guest.tied ?? "") : refusalText(found);
  outcome.stranded.push({ ...what, why, verdicts: found?.verdicts ?? [] });
}

/** By priority; large ones first, since small ones fit into what is left. */
function inOrder(a: PlacedGuest, b: PlacedGuest): number {
  const priority = (b.request.rules.priority ?? 0) - (a.request.rules.priority ?? 0);
  const memory = b.request.demand.memory - a.request.demand.memory;
  return priority || memory || (a.request.id < b.request.id ? -1 : 1);
}
