// Waiting until the cache shows a revision.
import type { Clock } from "@gpve/kit/clock.ts";

export class RevisionGate {
  #revision = 0;
  /** By the revision they wait for: thousands may wait while revisions come one by one. */
  readonly #waiters = new Map<number, Set<() => void>>();

  get revision(): number {
    return this.#revision;
  }

  /** May go back: a restored store starts lower than the one before it. */
  reset(revision: number): void {
    this.#revision = revision;
    for (const wanted of this.#waiters.keys()) if (wanted <= revision) this.#release(wanted);
  }

  advance(revision: number): void {
    const before = this.#revision;
    if (revision <= before) return;
    this.#revision = revision;
    if (revision - before > this.#waiters.size) {
      for (const wanted of this.#waiters.keys()) if (wanted <= revision) this.#release(wanted);
    } else {
      for (let wanted = before + 1; wanted <= revision; wanted++) this.#release(wanted);
    }
  }

  /** True when `revision` was reached, false when `ms` passed first. Rejects when the signal aborts. */
  async reached(revision: number, ms: number, clock: Clock, signal?: AbortSignal): Promise<boolean> {
    signal?.throwIfAborted();
    if (this.#revision >= revision) return true;
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const waiter = (): void => resolve(true);
    const together = this.#waiters.get(revision) ?? new Set();
    this.#waiters.set(revision, together.add(waiter));
    const cancel = clock.after(ms, () => resolve(false));
    const onAbort = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      return await promise;
    } finally {
      cancel();
      signal?.removeEventListener("abort", onAbort);
      together.delete(waiter);
      if (together.size === 0 && this.#waiters.get(revision) === together) this.#waiters.delete(revision);
    }
  }

  #release(revision: number): void {
    const together = this.#waiters.get(revision);
    if (together === undefined) return;
    this.#waiters.delete(revision);
    for (const resolve of together) resolve();
  }
}
