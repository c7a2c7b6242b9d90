// "How far is this watch?", asked of an etcd member. Before 3.4.25 and 3.5.8 its answer may overtake events that it
// speaks of (etcd-io/etcd#15220), and one believed at once would make them old news: lost. So an answer counts when an
// event has come that is as new, or when nothing has come until a second answer, asked for some time after the first.
import type { Clock } from "@gpve/kit/clock.ts";

/** A member brings a watch that lags behind forward every 100 ms. */
const DOUBT_MS = 500;

interface Open {
  /** How often it had been asked for when it was sent. */
  readonly asks: number;
  /** The answer that is in doubt. */
  revision?: number;
  quiet: boolean;
}

export class ProgressQuestion {
  readonly #clock: Clock;
  #asks = 0;
  #open: Open | undefined;
  #isDue = false;
  #wake: () => void = () => undefined;
  #cancelDoubt: () => void = () => undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** However many ask while a question is open, one more follows it. */
  ask(): void {
    this.#asks += 1;
    if (this.#open === undefined) this.#put();
  }

  /** Resolves when it is to be sent; false when the line is closed. */
  async due(signal: AbortSignal): Promise<boolean> {
    const onAbort = (): void => this.#wake();
    signal.addEventListener("abort", onAbort, { once: true });
    while (!signal.aborted && !this.#isDue) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
    }
    signal.removeEventListener("abort", onAbort);
    if (signal.aborted) return false;
    this.#isDue = false;
    return true;
  }

  /** The revision that the watch is at for sure, once that is known. */
  answered(revision: number): number | undefined {
    const open = this.#open;
    if (open === undefined) return undefined;
    if (open.revision !== undefined && open.quiet) {
      this.#settle(open);
      return open.revision;
    }
    open.revision = revision;
    open.quiet = true;
    this.#cancelDoubt = this.#clock.after(DOUBT_MS, () => this.#send());
    return undefined;
  }

  /** An event of this revision came. True when that answers the question. */
  heard(revision: number): boolean {
    const open = this.#open;
    if (open?.revision === undefined) return false;
    open.quiet = false;
    if (revision < open.revision) return false;
    this.#settle(open);
    return true;
  }

  /** The line is gone; the next one is asked anew. */
  hangUp(): void {
    this.#cancelDoubt();
    if (this.#open !== undefined) this.#put();
  }

  #put(): void {
    this.#open = { asks: this.#asks, quiet: true };
    this.#send();
  }

  #send(): void {
    this.#isDue = true;
    this.#wake();
  }

  #settle(open: Open): void {
    this.#cancelDoubt();
    this.#isDue = false;
    this.#open = undefined;
    if (this.#asks > open.asks) this.#put();
  }
}
