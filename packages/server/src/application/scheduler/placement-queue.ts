// Requests that wait for room. When something may have become free they try again, one after the other: higher priority
// first, then whoever came first. One that is woken and finds nothing waits on, in its old place.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";

interface Waiting {
  readonly priority: number;
  readonly order: number;
  /** Tries once more; true = it waits no longer, with or without a place. */
  readonly again: () => Promise<boolean>;
}

export interface QueueDeps {
  readonly clock: Pick<Clock, "after">;
  /** Things come free in bursts: one look for all of them. */
  readonly settleMs?: number;
}

export class PlacementQueue {
  readonly #deps: QueueDeps;
  readonly #waiting = new Set<Waiting>();
  #next = 0;
  #wake: (() => void) | undefined;
  #isTrying = false;
  #isAsked = false;

  constructor(deps: QueueDeps) {
    this.#deps = deps;
  }

  get depth(): number {
    return this.#waiting.size;
  }

  /** Resolves with what `attempt` gives; undefined = nothing yet. Rejects with what `gaveUp` makes when time is over. */
  wait<T>(
    attempt: () => Promise<T | undefined>,
    terms: {
      readonly priority: number;
      readonly waitMs: number;
      readonly signal: AbortSignal;
      readonly gaveUp: () => Error;
    },
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const end = (finish: () => void): void => {
        if (!this.#waiting.delete(waiting)) return;
        cancel();
        terms.signal.removeEventListener("abort", aborted);
        finish();
      };
      const waiting: Waiting = {
        priority: terms.priority,
        order: this.#next++,
        again: async () => {
          try {
            const found = await attempt();
            if (found === undefined) return false;
            end(() => resolve(found));
          } catch (err) {
            end(() => reject(err as Error));
          }
          return true;
        },
      };
      const aborted = (): void =>
        end(() => reject(new AppError("operation.cancelled", "nobody waits for the placement any more")));
      const cancel = this.#deps.clock.after(terms.waitMs, () => end(() => reject(terms.gaveUp())));
      terms.signal.addEventListener("abort", aborted);
      this.#waiting.add(waiting);
      if (terms.signal.aborted) aborted();
    });
  }

  /** Something may have become free. */
  wake(): void {
    if (this.#waiting.size === 0) return;
    if (this.#isTrying) {
      this.#isAsked = true;
      return;
    }
    this.#wake ??= this.#deps.clock.after(this.#deps.settleMs ?? 100, () => {
      this.#wake = undefined;
      void this.#tryAll();
    });
  }

  stop(): void {
    this.#wake?.();
  }

  async #tryAll(): Promise<void> {
    this.#isTrying = true;
    const inOrder = [...this.#waiting].toSorted((a, b) => b.priority - a.priority || a.order - b.order);
    for (const waiting of inOrder) if (this.#waiting.has(waiting)) await waiting.again();
    this.#isTrying = false;
    if (!this.#isAsked) return;
    this.#isAsked = false;
    this.wake();
  }
}
