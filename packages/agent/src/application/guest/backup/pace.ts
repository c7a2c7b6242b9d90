import type { Clock } from "@gpve/kit/clock.ts";

/** Not more than so many bytes a second, on average since it was made. */
export class Pace {
  readonly #bytesPerSecond: number;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #started: number;
  #done = 0;

  /** `bwlimit` in KiB/s; 0 = no limit. */
  constructor(bwlimit: number, clock: Clock, signal: AbortSignal) {
    this.#bytesPerSecond = bwlimit * 1024;
    this.#clock = clock;
    this.#signal = signal;
    this.#started = clock.now();
  }

  /** Resolves when the next bytes may come. */
  async after(bytes: number): Promise<void> {
    if (this.#bytesPerSecond === 0) return;
    this.#done += bytes;
    const early = this.#started + (this.#done / this.#bytesPerSecond) * 1000 - this.#clock.now();
    if (early > 0) await this.#clock.sleep(early, this.#signal);
  }
}
