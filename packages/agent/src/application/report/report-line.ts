// One server's share of the reports: which one it has, and when the next is due.
import type { Clock } from "@gpve/kit/clock.ts";

/**
 * What happens at about the same time is told at once. A report costs every server and this node some milliseconds of processor
 * time each, and there are several ends within a moment when a guest has moved, which is about to go on just then.
 */
const TOGETHER_MS = 250;

export class ReportLine {
  readonly #clock: Clock;
  /** Reports are numbered; a number waits here until that report, or a later one, has arrived. */
  readonly #waiting = new Map<() => void, number>();
  #taken = 0;
  #arrived = 0;
  #running: string | undefined;
  #isWanted = false;
  #wake: ((how: "soon" | "now") => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A report is put together now, with these guests running. */
  taken(running: string): void {
    this.#taken += 1;
    this.#running = running;
    this.#isWanted = false;
  }

  /** The last one taken has arrived. */
  delivered(): void {
    this.#arrived = this.#taken;
    for (const [resolve, wanted] of this.#waiting) if (wanted <= this.#arrived) resolve();
  }

  /** Resolves when the server knows that these guests run, or knows what came after. */
  async knows(running: string): Promise<void> {
    const isTaken = this.#running === running;
    const wanted = isTaken ? this.#taken : this.#taken + 1;
    if (wanted <= this.#arrived) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.set(resolve, wanted);
    if (!isTaken) {
      this.#isWanted = true;
      this.#wake?.("now");
    }
    await promise;
    this.#waiting.delete(resolve);
  }

  hurry(): void {
    this.#wake?.("soon");
  }

  /** Until the next report is due. */
  async untilDue(intervalMs: number, signal: AbortSignal): Promise<void> {
    if (this.#isWanted) return;
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    const { promise: now, resolve: goNow } = Promise.withResolvers<void>();
    const { promise: soon, resolve: goSoon } = Promise.withResolvers<void>();
    this.#wake = (how) => (how === "now" ? goNow() : goSoon());
    const together = soon.then(() => this.#clock.sleep(TOGETHER_MS, either));
    try {
      await Promise.race([this.#clock.sleep(intervalMs, either), now, together]);
    } finally {
      this.#wake = undefined;
      over.abort();
    }
  }

  /** Nobody is left waiting for a server that is gone. */
  close(): void {
    for (const resolve of this.#waiting.keys()) resolve();
  }
}
