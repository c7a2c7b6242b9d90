// A complaint that is the same in every round is worth saying once a minute. What changed is always said.
import type { HaLogLevel } from "./environment.ts";

const AGAIN_MS = 60_000;
const REMEMBERED = 1_000;

export class SaidOnce {
  readonly #clock: { monotonic(): number };
  readonly #said = new Map<string, number>();

  constructor(clock: { monotonic(): number }) {
    this.#clock = clock;
  }

  isNew(level: HaLogLevel, text: string): boolean {
    if (level === "info" || level === "mail") return true;
    const now = this.#clock.monotonic();
    const before = this.#said.get(text);
    if (before !== undefined && now - before < AGAIN_MS) return false;
    if (this.#said.size >= REMEMBERED) this.#said.clear();
    this.#said.set(text, now);
    return true;
  }
}
