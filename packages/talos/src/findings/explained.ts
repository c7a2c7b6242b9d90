// Findings with what to do about them, as reports carry them.
import { isAppError } from "@gpve/contracts/errors.ts";
import type { PlacedProblem } from "../cluster/parse-cluster.ts";
import { catalogue, type FindingId } from "./catalogue.ts";

export interface Reasons {
  readonly cause: string;
  readonly fix: string;
}

export function explained<T extends { readonly id: FindingId }>(finding: T): T & Reasons {
  const { cause, fix } = catalogue[finding.id];
  return { ...finding, cause, fix };
}

/** For people: each kind once, however often it was found. */
export function reasonLines(found: readonly { readonly id: FindingId }[]): readonly string[] {
  return [...new Set(found.map(({ id }) => id))].flatMap((id) => {
    const { title, cause, fix } = catalogue[id];
    return [`${id}: ${title}`, `  Cause: ${cause}`, `  Fix: ${fix}`];
  });
}

export interface FailureFinding extends Reasons {
  readonly id: FindingId;
  readonly severity: "error";
  readonly evidence: string;
}

/** What a failure found; nothing when it is of another kind. */
export function findingsOf(err: unknown): readonly FailureFinding[] {
  if (!isAppError(err)) return [];
  const { finding, problems } = err.data as { finding?: unknown; problems?: readonly PlacedProblem[] };
  if (problems !== undefined) {
    return problems.map(({ id, line, key, message }) =>
      explained({
        id,
        severity: "error",
        evidence: `line ${line}: ${key === "" ? "" : `${key} `}${message}`,
      }),
    );
  }
  if (typeof finding !== "string" || !Object.hasOwn(catalogue, finding)) return [];
  return [explained({ id: finding as FindingId, severity: "error", evidence: err.message })];
}
