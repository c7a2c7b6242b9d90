// Who decided before somebody else took a place of the same node has to look again.
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { placementTurnsDef } from "./placement-records.ts";

/** By node, as of a decision: the revision of its turn; undefined = nothing was ever placed there. */
export type Turns = ReadonlyMap<string, number | undefined>;

export function turnsOf(records: Pick<Records, "collection">, nodes: readonly string[]): Turns {
  const turns = records.collection(placementTurnsDef);
  return new Map(nodes.map((node) => [node, turns.get(node)?.revision]));
}

/** false = somebody was quicker at one of the nodes: nothing may be written. */
export function takeTurns(tx: Tx, turns: Turns): boolean {
  const found = [...turns].map(([node, revision]) => ({
    node,
    revision,
    now: tx.get(placementTurnsDef, node),
  }));
  if (found.some(({ revision, now }) => now?.revision !== revision)) return false;
  raiseTurns(tx, [...turns.keys()]);
  return true;
}

/** Of nodes that were named: whoever decides meanwhile looks again. */
export function raiseTurns(tx: Tx, nodes: readonly string[]): void {
  for (const node of nodes)
    tx.put(placementTurnsDef, node, { turn: (tx.get(placementTurnsDef, node)?.value.turn ?? 0) + 1 });
}
