// Slows guessing: after ten failures in a minute for one user from one address, that pair gets no further check
// until the minute is over. Other addresses are never affected, so nobody can lock a user out.
import type { Clock } from "@gpve/kit/clock.ts";
import { KeyedQueue } from "@gpve/kit/keyed-queue.ts";
import { clientNetwork } from "@gpve/kit/net/client-network.ts";

export const MAX_FAILURES = 10;
export const WINDOW_MS = 60_000;
const MAX_ENTRIES = 20_000;

export class LoginLimiter {
  readonly #clock: Clock;
  readonly #maxEntries: number;
  /** One check at a time for a user and address: a thousand guesses at once count as well as one after another. */
  readonly #checks = new KeyedQueue();
  /** In order of the window's start, so that the oldest goes first when there are too many. */
  readonly #failures = new Map<string, { since: number; count: number }>();

  constructor(clock: Clock, maxEntries = MAX_ENTRIES) {
    this.#clock = clock;
    this.#maxEntries = maxEntries;
  }

  /** `check` says why it fails; so does this, also where it was not asked any more. undefined = it does not fail. */
  guard(
    user: string,
    address: string,
    check: () => Promise<string | undefined>,
  ): Promise<string | undefined> {
    return this.#checks.run(keyOf(user, address), async () => {
      if (this.isBlocked(user, address)) return "too many failures in the last minute";
      const failure = await check();
      if (failure !== undefined) this.failed(user, address);
      return failure;
    });
  }

  isBlocked(user: string, address: string): boolean {
    const entry = this.#failures.get(keyOf(user, address));
    return entry !== undefined && this.#isOpen(entry) && entry.count >= MAX_FAILURES;
  }

  failed(user: string, address: string): void {
    const key = keyOf(user, address);
    const entry = this.#failures.get(key);
    if (entry !== undefined && this.#isOpen(entry)) {
      entry.count++;
      return;
    }
    this.#failures.delete(key);
    this.#makeRoom();
    this.#failures.set(key, { since: this.#clock.monotonic(), count: 1 });
  }

  get size(): number {
    return this.#failures.size;
  }

  #makeRoom(): void {
    for (const [key, entry] of this.#failures) {
      if (this.#isOpen(entry) && this.#failures.size < this.#maxEntries) return;
      this.#failures.delete(key);
    }
  }

  #isOpen(entry: { since: number }): boolean {
    return this.#clock.monotonic() - entry.since < WINDOW_MS;
  }
}

/** Names come from strangers: a NUL cannot be in an address, and long ones are cut. */
function keyOf(user: string, address: string): string {
  return `${clientNetwork(address)}\0${user.slice(0, 128)}`;
}
