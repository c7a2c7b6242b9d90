// Waiting until the cache shows a revision.
import type { Clock } from "@gpve/kit/clock.ts";

interface Waiter {
  readonly revision: number;
  readonly resolve: () => void;
}

export class RevisionGate {
  #revision = 0;
  #waiters: Waiter[] = [];

  get revision(): number {
    return this.#revision;
  }

  /** May go back: a restored store starts lower than the one before it. */
  reset(revision: number): void {
    this.#revision = revision;
    this.#release();
  }

  advance(revision: number): void {
    if (revision <= this.#revision) return;
    this.#revision = revision;
    this.#release();
  }

  /** True when `revision` was reached, false when `ms` passed first. Rejects when the signal aborts. */
  async reached(revision: number, ms: number, clock: Clock, signal?: AbortSignal): Promise<boolean> {
    signal?.throwIfAborted();
    if (this.#revision >= revision) return true;
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const waiter: Waiter = { revision, resolve: () => resolve(true) };
    this.#waiters.push(waiter);
    const cancel = clock.after(ms, () => resolve(false));
    const onAbort = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      return await promise;
    } finally {
      cancel();
      signal?.removeEventListener("abort", onAbort);
      this.#waiters = this.#waiters.filter((other) => other !== waiter);
    }
  }

  #release(): void {
    if (this.#waiters.length === 0) return;
    for (const waiter of this.#waiters) if (waiter.revision <= this.#revision) waiter.resolve();
    this.#waiters = this.#waiters.filter((waiter) => waiter.revision > this.#revision);
  }
}
