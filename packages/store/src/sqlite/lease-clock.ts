// When leases end. Keeping one alive costs no disk write: after a restart every lease gets its full time again,
// as after a change of leader in etcd, so a holder is never cut short by a clock it cannot see.
import type { Clock } from "@gpve/kit/clock.ts";

/** A timer that is to run longer runs at once; 2^31 - 1 ms are 24.8 days. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

interface Lease {
  readonly ttlSeconds: number;
  endsAt: number;
  ending: boolean;
}

export class LeaseClock {
  readonly #clock: Clock;
  readonly #onExpired: (id: bigint) => void;
  readonly #leases = new Map<bigint, Lease>();
  #cancel: (() => void) | undefined;
  #wakesAt = Infinity;

  constructor(clock: Clock, onExpired: (id: bigint) => void) {
    this.#clock = clock;
    this.#onExpired = onExpired;
  }

  add(id: bigint, ttlSeconds: number): void {
    const endsAt = this.#clock.monotonic() + ttlSeconds * 1_000;
    this.#leases.set(id, { ttlSeconds, endsAt, ending: false });
    this.#plan(endsAt);
  }

  has(id: bigint): boolean {
    const lease = this.#leases.get(id);
    return lease !== undefined && lease.endsAt > this.#clock.monotonic();
  }

  get(id: bigint): { ttlSeconds: number; remainingMs: number } | undefined {
    const lease = this.#leases.get(id);
    if (lease === undefined) return undefined;
    return { ttlSeconds: lease.ttlSeconds, remainingMs: lease.endsAt - this.#clock.monotonic() };
  }

  /** Those that have not ended, the next to end first. */
  byEnd(): bigint[] {
    const now = this.#clock.monotonic();
    return [...this.#leases]
      .filter(([, lease]) => lease.endsAt > now)
      .toSorted(([, a], [, b]) => a.endsAt - b.endsAt)
      .map(([id]) => id);
  }

  renew(id: bigint): number | undefined {
    const lease = this.#leases.get(id);
    const now = this.#clock.monotonic();
    if (lease === undefined || lease.endsAt <= now) return undefined;
    lease.endsAt = now + lease.ttlSeconds * 1_000;
    return lease.ttlSeconds;
  }

  remove(id: bigint): void {
    this.#leases.delete(id);
  }

  stop(): void {
    this.#cancel?.();
    this.#leases.clear();
  }

  #plan(at: number): void {
    if (at >= this.#wakesAt) return;
    this.#cancel?.();
    this.#wakesAt = at;
    const waitMs = Math.min(LONGEST_TIMER_MS, Math.max(0, at - this.#clock.monotonic()));
    this.#cancel = this.#clock.after(waitMs, () => this.#expire());
  }

  #expire(): void {
    this.#wakesAt = Infinity;
    const now = this.#clock.monotonic();
    let next = Infinity;
    for (const [id, lease] of this.#leases) {
      if (lease.ending) continue;
      if (lease.endsAt <= now) {
        lease.ending = true;
        this.#onExpired(id);
      } else next = Math.min(next, lease.endsAt);
    }
    if (next !== Infinity) this.#plan(next);
  }
}
