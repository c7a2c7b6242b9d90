// Nothing fits: how many nodes were refused, and by what; of each node why, to who may see nodes.
import { AppError } from "@gpve/contracts/errors.ts";
import { type Explanation, refusalText } from "@gpve/domain/scheduler/explain.ts";

/** What a message names; all of them are in its data. */
const NAMED_NODES = 10;

export function refusalError(
  what: string,
  explanation: Explanation,
  { maySeeNodes, data = {} }: { readonly maySeeNodes: boolean; readonly data?: object },
): AppError {
  const nodes = explanation.verdicts.map(({ node, refusals }) => ({ node, refusals }));
  const reasons = nodes
    .slice(0, NAMED_NODES)
    .map(({ node, refusals }) => `${node}: ${refusals.map(({ why }) => why).join("; ")}`);
  const detail = maySeeNodes ? `. ${reasons.join(". ")}` : "";
  return new AppError("capacity.exceeded", `${what}: ${refusalText(explanation)}${detail}`, {
    data: { ...data, refused: explanation.refused, ...(maySeeNodes ? { nodes } : {}) },
  });
}
