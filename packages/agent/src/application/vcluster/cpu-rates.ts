// How many CPUs each cluster keeps busy, of what its parts have used so far.
import type { Clock } from "@gpve/kit/clock.ts";

/** Workers are looked at as often. */
const SPAN_MS = 5_000;

interface Seen {
  readonly at: number;
  readonly seconds: number;
  readonly cores: number;
}

export class CpuRates {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #seen = new Map<string, Seen>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Lately; 0 when it is seen for the first time. `seconds`: of CPU time, less than before where parts were started anew. */
  of(name: string, seconds: number): number {
    const [before, at] = [this.#seen.get(name), this.#clock.monotonic()];
    if (before !== undefined && at - before.at < SPAN_MS) return before.cores;
    const used = before === undefined ? 0 : Math.max(0, seconds - before.seconds);
    const cores = before === undefined ? 0 : (used * 1_000) / (at - before.at);
    this.#seen.set(name, { at, seconds, cores });
    return cores;
  }

  /** Those that are there no more. */
  keep(names: ReadonlySet<string>): void {
    for (const name of this.#seen.keys()) if (!names.has(name)) this.#seen.delete(name);
  }
}
