import { AppError } from "@gpve/contracts/errors.ts";
import type { OperationView } from "./record.ts";

/** Who waits for the end of which operation. */
export class Waiters {
  readonly #waiting = new Map<string, Set<(operation: OperationView) => void>>();

  wait(id: string, signal?: AbortSignal): Promise<OperationView> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiting);
      const onAbort = (): void => {
        waiting.delete(onEnd);
        reject(new AppError("operation.cancelled", "the wait for an operation was given up"));
      };
      const onEnd = (operation: OperationView): void => {
        signal?.removeEventListener("abort", onAbort);
        resolve(operation);
      };
      if (signal?.aborted === true) onAbort();
      else {
        waiting.add(onEnd);
        signal?.addEventListener("abort", onAbort, { once: true });
      }
    });
  }

  ended(operation: OperationView): void {
    const waiting = this.#waiting.get(operation.id) ?? [];
    this.#waiting.delete(operation.id);
    for (const onEnd of waiting) onEnd(operation);
  }
}
