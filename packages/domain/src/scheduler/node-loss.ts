// What would become of guests if nodes were lost: where they would be started again, in order, and what would not fit.
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

export interface LossOutcome {
  readonly restarted: readonly Restarted[];
  readonly stranded: readonly Stranded[];
  /** Guests there that did not run: nobody starts them elsewhere. */
  readonly stopped: readonly string[];
}

export function simulateLoss(before: ClusterState, lost: readonly string[], policy: Policy): LossOutcome {
  const state = before.clone();
  const there = [...state.guests()].filter(({ node }) => lost.includes(node));
  for (const { request } of there) state.remove(request.id);
  state.setNodes(state.nodes.filter(({ name }) => !lost.includes(name)));
  const restarted: Restarted[] = [];
  const stranded: Stranded[] = [];
  for (const guest of there.filter(({ counts }) => counts).toSorted(inOrder)) {
    const { id } = guest.request;
    const outcome = guest.tied === undefined ? explain(state, guest.request, policy) : undefined;
    if (outcome?.node !== undefined) {
      state.place({ ...guest, node: outcome.node });
      restarted.push({ guest: id, from: guest.node, to: outcome.node });
      continue;
    }
    const why = outcome === undefined ? (guest.tied ?? "") : refusalText(outcome);
    stranded.push({ guest: id, from: guest.node, why, verdicts: outcome?.verdicts ?? [] });
  }
  const stopped = there.filter(({ counts }) => !counts).map(({ request }) => request.id);
  return { restarted, stranded, stopped: stopped.toSorted() };
}

/** By priority; large ones first, since small ones fit into what is left. */
function inOrder(a: PlacedGuest, b: PlacedGuest): number {
  const priority = (b.request.rules.priority ?? 0) - (a.request.rules.priority ?? 0);
  const memory = b.request.demand.memory - a.request.demand.memory;
  return priority || memory || (a.request.id < b.request.id ? -1 : 1);
}
