import { AppError } from "@gpve/contracts/errors.ts";
import type { Journal, JournalSession } from "../operation/journal.ts";
import type { OperationRecord } from "../operation/record.ts";

/** What a journal leaves on disk, shared by the "processes" of a test. */
export class JournalDisk {
  readonly records = new Map<number, string>();
  lastSequence = 0;
  owner: { readonly name: string; readonly lost: AbortController } | undefined;
  readonly freed = new Set<() => void>();

  list(): readonly OperationRecord[] {
    return [...this.records]
      .toSorted(([a], [b]) => a - b)
      .map(([, text]) => JSON.parse(text) as OperationRecord);
  }
}

/** A journal in memory. `die` makes it behave as after a kill -9: nothing is written or answered any more. */
export class MemoryJournal implements Journal {
  readonly disk: JournalDisk;
  /** Makes the next writes fail, one error each. */
  readonly failures: Error[] = [];
  writes = 0;
  #isDead = false;

  constructor(disk = new JournalDisk()) {
    this.disk = disk;
  }

  die(): void {
    this.#isDead = true;
    this.disk.owner = undefined;
  }

  /** Takes the claim away, as an expired lease does. */
  expire(): void {
    this.disk.owner?.lost.abort(new Error("the lease has expired"));
    this.#free();
  }

  async claim(owner: string, signal: AbortSignal): Promise<JournalSession> {
    while (this.disk.owner !== undefined && this.disk.owner.name !== owner) await this.#untilFree(signal);
    signal.throwIfAborted();
    this.disk.owner?.lost.abort(new Error("another process has the journal"));
    const lost = new AbortController();
    this.disk.owner = { name: owner, lost };
    return this.#session(lost);
  }

  #session(lost: AbortController): JournalSession {
    const turn = async (): Promise<void> => {
      if (this.#isDead) await new Promise(() => {});
      await Promise.resolve();
      if (lost.signal.aborted) throw new AppError("object.conflict", "the claim on the journal is lost");
    };
    return {
      lost: lost.signal,
      load: async () => {
        await turn();
        return { records: this.disk.list(), lastSequence: this.disk.lastSequence };
      },
      write: async (record) => {
        const text = JSON.stringify(record);
        await turn();
        const failure = this.failures.shift();
        if (failure !== undefined) throw failure;
        this.writes += 1;
        this.disk.records.set(record.sequence, text);
        this.disk.lastSequence = Math.max(this.disk.lastSequence, record.sequence);
      },
      remove: async (sequences) => {
        await turn();
        for (const sequence of sequences) this.disk.records.delete(sequence);
      },
      release: async () => {
        await turn().catch(() => {
          // Already somebody else's.
        });
        if (this.disk.owner?.lost === lost) this.#free();
      },
    };
  }

  #free(): void {
    this.disk.owner = undefined;
    for (const wake of this.disk.freed) wake();
    this.disk.freed.clear();
  }

  #untilFree(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      this.disk.freed.add(resolve);
      signal.addEventListener("abort", () => reject(new Error("the claim was given up")), { once: true });
    });
  }
}
