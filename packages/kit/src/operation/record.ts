import { isEnded, operationStates } from "./states.ts";
import type { OperationState } from "./states.ts";

export interface StepMark {
  readonly name: string;
  /** `started` may mean anything between "about to begin" and "finished but not yet written down". */
  readonly state: "started" | "done" | "undone" | "undoFailed";
  readonly undoAttempts?: number;
  readonly undoError?: string;
}

/** What the journal holds of one operation. JSON through and through. */
export interface OperationRecord {
  /** The UPID. */
  readonly id: string;
  /** Durable number, never used twice by one journal. */
  readonly sequence: number;
  /** Place in the queues; an overtaker has the place of what it overtook. */
  readonly order: number;
  readonly type: string;
  readonly resources: readonly string[];
  /** Those among them that it only reads, together with others. */
  readonly shared?: readonly string[];
  readonly args: unknown;
  readonly actor: string;
  readonly requestId?: string;
  readonly traceparent?: string;
  readonly state: OperationState;
  /** Milliseconds. */
  readonly createdAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  readonly steps: readonly StepMark[];
  /** The steps' own state. */
  readonly data: Readonly<Record<string, unknown>>;
  readonly warnings: number;
  /** Who asked for its end, and why. */
  readonly cancelled?: { readonly by: string; readonly reason: string };
  readonly error?: string;
  /** "OK", "WARNINGS: n" or the error text; when ended. */
  readonly exitStatus?: string;
  /** The process stopped in good order between two steps: carry on, whatever `onCrash` says. */
  readonly suspended?: boolean;
}

/** A record with what only this process knows. */
export interface OperationView extends OperationRecord {
  /** 0 to 1. */
  readonly progress: number;
  readonly progressText: string | undefined;
}

export const INTERRUPTED = "received interrupt";
/** Larger records are refused: the smallest store takes 1.5 MB per request. */
export const MAX_RECORD_BYTES = 512 * 1024;

export function exitStatusOf(record: OperationRecord, outcome: OperationState): string {
  if (outcome === "done") return record.warnings > 0 ? `WARNINGS: ${record.warnings}` : "OK";
  if (outcome === "cancelled") return INTERRUPTED;
  const text = (record.error ?? "").replace(/\s*[\r\n]+\s*/g, " ").trim();
  return text === "" ? "unexpected status" : text;
}

export function lastLogLine(exitStatus: string, outcome: OperationState): string {
  return outcome === "done" ? `TASK ${exitStatus}` : `TASK ERROR: ${exitStatus}`;
}

export function markStep(
  record: OperationRecord,
  name: string,
  change: Omit<StepMark, "name">,
): OperationRecord {
  const known = record.steps.some((step) => step.name === name);
  const steps = known
    ? record.steps.map((step) => (step.name === name ? { ...step, ...change } : step))
    : [...record.steps, { name, ...change }];
  return { ...record, steps };
}

/** Ended records that are too old, or too many; never an unfinished one. */
export function outlived(
  records: readonly OperationRecord[],
  limit: { readonly keepCount: number; readonly endedBefore: number },
): readonly OperationRecord[] {
  return records
    .filter((record) => isEnded(record.state))
    .toSorted((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0))
    .filter((record, at) => at >= limit.keepCount || (record.endedAt ?? 0) < limit.endedBefore);
}

/** Throws on a shape it does not know, so that a newer journal is never half-understood. */
export function decodeRecord(json: unknown): OperationRecord {
  const record = json as Partial<OperationRecord> | null;
  if (
    typeof record !== "object" ||
    record === null ||
    typeof record.id !== "string" ||
    typeof record.sequence !== "number" ||
    typeof record.type !== "string" ||
    typeof record.state !== "string" ||
    !Object.hasOwn(operationStates, record.state) ||
    !Array.isArray(record.resources) ||
    !Array.isArray(record.steps)
  )
    throw new TypeError("not an operation record");
  return record as OperationRecord;
}
