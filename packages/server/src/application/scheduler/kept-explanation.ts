// Of a decision as it was made, what a record keeps: thousands of nodes are nobody's reading.
import type { Explanation } from "@gpve/domain/scheduler/explain.ts";

const KEPT_VERDICTS = 50;
const LEAST_KEPT = 5;

/** `among`: how many share the record. */
export function keptExplanation(explanation: Explanation, among = 1): Explanation {
  const most = Math.max(LEAST_KEPT, Math.floor(KEPT_VERDICTS / among));
  return { ...explanation, verdicts: explanation.verdicts.slice(0, most) };
}
