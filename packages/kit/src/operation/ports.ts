// What the engine needs from outside, besides the journal.
import type { OperationRecord, OperationView } from "./record.ts";

export interface TaskLog {
  /** Never throws and never waits: a log that cannot be written does not stop the work. */
  append(line: string): void;
  /** Resolves when everything appended so far would survive a kill -9. */
  flush(): Promise<void>;
  /** Writes the last line, once: a log that already has one keeps it. */
  finish(lastLine: string): Promise<void>;
}

export interface TaskLogSink {
  /** Opens the log of a task, for appending when it exists. */
  open(id: string): TaskLog;
  remove(id: string): Promise<void>;
  /** What was appended is written, and nothing is held open; who appends afterwards opens it again. */
  close(): Promise<void>;
}

/** Facts a name (a UPID) is made of. */
export interface OperationNameFacts {
  readonly sequence: number;
  readonly type: string;
  /** What the task is about, as in PVE: a VMID, a storage; may be empty. */
  readonly subject: string;
  readonly actor: string;
  /** Milliseconds. */
  readonly createdAt: number;
}

export interface CrashPoint {
  readonly id: string;
  readonly type: string;
  readonly phase:
    | "before-run"
    | "after-run"
    | "before-undo"
    | "after-undo"
    | "before-finish"
    | "after-finish";
  /** Empty for before-finish and after-finish. */
  readonly step: string;
}

/** Test compositions only: called at every point where a crash matters. A hit that never resolves is a crash. */
export interface CrashInjector {
  hit(point: CrashPoint): Promise<void> | void;
}

export type OperationEvent =
  | {
      readonly kind: "accepted" | "started" | "step" | "progress" | "ended";
      readonly operation: OperationView;
    }
  | { readonly kind: "log"; readonly operation: OperationView; readonly line: string }
  | { readonly kind: "removed"; readonly operation: OperationRecord };

export interface OperationLogger {
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  error(fields: Readonly<Record<string, unknown>>, message: string): void;
}
