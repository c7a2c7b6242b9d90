// Brings records to the journal and does not give up: no step runs before its mark is written down.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "../background.ts";
import type { Clock } from "../clock.ts";
import type { JournalSession } from "./journal.ts";
import type { LiveOperation } from "./live-operation.ts";
import type { OperationLogger } from "./ports.ts";
import { MAX_RECORD_BYTES } from "./record.ts";
import type { OperationRecord } from "./record.ts";
import { pauseUnlessHalted, throwIfHalted } from "./halt.ts";
import { isEnded } from "./states.ts";

export interface JournalWriterDeps {
  readonly session: JournalSession;
  readonly clock: Clock;
  readonly logger: OperationLogger;
  /** Aborts when nothing may be written any more. */
  readonly halt: AbortSignal;
}

const RETRY_MS = [100, 250, 500, 1_000, 2_000] as const;

export class JournalWriter {
  readonly #deps: JournalWriterDeps;

  constructor(deps: JournalWriterDeps) {
    this.#deps = deps;
  }

  /** A new operation: fails at once, so that the caller can tell the client. */
  async add(record: OperationRecord): Promise<void> {
    const bytes = sizeOf(record);
    if (bytes > MAX_RECORD_BYTES)
      throw new AppError("request.too_large", `operation '${record.type}' has arguments of ${bytes} bytes`);
    try {
      await this.#deps.session.write(record);
    } catch (error) {
      // The write may have happened all the same. The caller is told it failed, so it must not run later.
      void this.#withdraw(record);
      throw error;
    }
  }

  /** One write at a time per operation, always of its newest state: a retried write never undoes a later one. */
  persist(operation: LiveOperation, change?: Partial<OperationRecord>): Promise<void> {
    const write = operation.writes.then(() => this.#writeOut(operation, change));
    operation.writes = write.catch((error: unknown) => ignore(error, "the caller of persist has it"));
    return write;
  }

  async #writeOut(operation: LiveOperation, change?: Partial<OperationRecord>): Promise<void> {
    const isEnd = change?.state !== undefined && isEnded(change.state);
    for (let attempt = 0; ; attempt++) {
      throwIfHalted(this.#deps);
      if (operation.isSealed && !isEnd) return;
      operation.isSealed ||= isEnd;
      const record = operation.snapshot(change);
      const bytes = sizeOf(record);
      if (bytes > MAX_RECORD_BYTES) {
        operation.restoreData();
        throw new AppError("request.too_large", `the state of operation '${record.type}' has ${bytes} bytes`);
      }
      try {
        await this.#deps.session.write(record);
        operation.writtenData = record.data;
        return;
      } catch (error) {
        throwIfHalted(this.#deps);
        this.#deps.logger.warn(
          { err: messageOf(error), operation: record.id },
          "the journal cannot be written, trying again",
        );
        await pauseUnlessHalted(RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)] ?? 1_000, this.#deps);
      }
    }
  }

  async #withdraw(record: OperationRecord): Promise<void> {
    for (let attempt = 0; !this.#deps.halt.aborted; attempt++) {
      try {
        await this.#deps.session.remove([record.sequence]);
        return;
      } catch (error) {
        this.#deps.logger.warn({ err: messageOf(error) }, "a refused operation is still in the journal");
        await this.#deps.clock.sleep(Math.min(30_000, 500 * 2 ** attempt));
      }
    }
  }
}

function sizeOf(record: OperationRecord): number {
  return Buffer.byteLength(JSON.stringify(record));
}
