import type { OperationRecord } from "./record.ts";

/**
 * Where operations are kept. One process at a time owns a journal: only the owner reads it into memory, runs
 * what it holds and writes. An owner that lost its claim must stop at once; its writes are refused from then on.
 */
export interface Journal {
  /**
   * Waits until the journal is free, then takes it. The same owner id (a process started again) takes it over
   * at once. Rejects when `signal` aborts.
   */
  claim(owner: string, signal: AbortSignal): Promise<JournalSession>;
}

export interface JournalSession {
  /** Aborts when another owner has the journal or this one can no longer be sure that it has not. */
  readonly lost: AbortSignal;
  load(): Promise<{ readonly records: readonly OperationRecord[]; readonly lastSequence: number }>;
  /** Durable when it resolves. Writes take effect in the order of the calls. */
  write(record: OperationRecord): Promise<void>;
  remove(sequences: readonly number[]): Promise<void>;
  /** Gives the journal up. */
  release(): Promise<void>;
}
