// A step that does not take effect is not tried for ever. How often it comes says little by itself: in a long wave a
// snapshot grows old again and again, and an API is away for a moment with each control plane.
import { AppError } from "@gpve/contracts/errors.ts";

const MOST_TRIES = 3;

export class Tries {
  readonly #known = new Set<string>();
  readonly #tries = new Map<string, number>();

  /** Names of steps that are about to be done. What was never done before is progress, and there is an end of that. */
  count(names: readonly string[]): void {
    if (names.some((name) => !this.#known.has(name))) this.forget();
    for (const name of names) {
      this.#known.add(name);
      const before = this.#tries.get(name) ?? 0;
      this.#tries.set(name, before + 1);
      if (before < MOST_TRIES) continue;
      throw new AppError("operation.failed", `${name} was done ${before} times and is still to be done`, {
        data: { finding: "step-without-effect" },
      });
    }
  }

  forget(): void {
    this.#tries.clear();
  }
}
