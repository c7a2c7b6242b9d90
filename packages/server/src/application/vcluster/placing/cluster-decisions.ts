// Why each part of a virtual cluster is where it is, as it was decided: beside its record, written and deleted with it. Agents
// see none of it.
import { objectRecords } from "@gpve/domain/record/collection.ts";
import type { Explanation } from "@gpve/domain/scheduler/explain.ts";
import type { CollectionDef, Tx } from "@gpve/store/records/port.ts";
import { keptExplanation } from "../../scheduler/kept-explanation.ts";
import type { PartName } from "./cluster-request.ts";

export interface PartDecision {
  readonly part: PartName;
  readonly node: string;
  /** Milliseconds. */
  readonly at: number;
  /** Who asked; "" = the servers by themselves. */
  readonly by: string;
  /** How often somebody else took a place first. */
  readonly lost: number;
  readonly explanation: Explanation;
}

export interface ClusterDecisions {
  readonly parts: readonly PartDecision[];
}

/** By the cluster's key. */
export const clusterDecisionsDef: CollectionDef<ClusterDecisions> =
  objectRecords("/gpve/vcluster-decisions/");

/** Of a new one; none: its node was named. */
export function writeDecisions(tx: Tx, key: string, parts: readonly PartDecision[]): void {
  if (parts.length === 0) forgetDecisions(tx, key);
  else
    tx.put(clusterDecisionsDef, key, {
      parts: parts.map((each) => ({ ...each, explanation: keptExplanation(each.explanation, parts.length) })),
    });
}

/** Instead of what was decided for the part before, or for the node that it comes after. */
export function writeDecision(tx: Tx, key: string, decision: PartDecision, instead?: string): void {
  const { parts = [] } = tx.get(clusterDecisionsDef, key)?.value ?? {};
  const others = parts.filter(({ part, node }) => part !== decision.part && node !== instead);
  const explanation = keptExplanation(decision.explanation, others.length + 1);
  tx.put(clusterDecisionsDef, key, { parts: [...others, { ...decision, explanation }] });
}

/** The cluster goes on where its standby is: that is why it is there. */
export function promoteStandby(tx: Tx, key: string): void {
  const { parts = [] } = tx.get(clusterDecisionsDef, key)?.value ?? {};
  const standby = parts.find(({ part }) => part === "standby");
  if (standby === undefined) return;
  const others = parts.filter(({ part }) => part !== "standby" && part !== "control-plane");
  tx.put(clusterDecisionsDef, key, { parts: [{ ...standby, part: "control-plane" }, ...others] });
}

export function forgetDecisions(tx: Tx, key: string): void {
  if (tx.has(clusterDecisionsDef, key)) tx.delete(clusterDecisionsDef, key);
}
