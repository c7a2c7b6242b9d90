// Whether a guest whose RAM is being sent is ever sent whole. QEMU slows it down step by step when it changes more than
// half of what is sent meanwhile; one that is as slow as may be and still too quick stays where it is, and so does one
// that never is quick enough to be slowed down and never slow enough to come to an end.
import type { MigrationInfo } from "@gpve/domain/vm/qmp/qmp-types.ts";

/** A guest slower than a fifth of itself is as good as down, which is what a live move is to spare it. */
const MOST_THROTTLE_PERCENT = 80;
/** Passes over the RAM that a guest has when it is as slow as may be. */
const LAST_CHANCES = 2;
const MOST_PASSES = 40;

export const throttleParameters = {
  "cpu-throttle-initial": 40,
  "cpu-throttle-increment": 20,
  "max-cpu-throttle": MOST_THROTTLE_PERCENT,
};

export class Convergence {
  #slowestSince: number | undefined;

  /** True when there is no use in going on. */
  isHopeless(info: MigrationInfo): boolean {
    if (info.status !== "active") return false;
    const passes = Number(info.ram?.["dirty-sync-count"] ?? 0);
    if (passes > MOST_PASSES) return true;
    if (Number(info["cpu-throttle-percentage"] ?? 0) < MOST_THROTTLE_PERCENT) return false;
    this.#slowestSince ??= passes;
    return passes - this.#slowestSince > LAST_CHANCES;
  }
}
