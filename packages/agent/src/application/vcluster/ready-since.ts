// Since when each cluster answers, or does not. What changed while no agent looked is told by its phase.
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { isReady, type VirtualClusterRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export class ReadySince {
  readonly #clock: Pick<Clock, "now">;
  readonly #seen = new Map<string, { readonly isReady: boolean; readonly since: number }>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Milliseconds since the epoch. */
  of(
    { name, phaseAt }: Pick<KeptCluster, "name" | "phaseAt">,
    now: Pick<VirtualClusterRuntime, "phase" | "power" | "asleep">,
  ): number {
    // Another may have had the name before a new one.
    const before = now.phase === "Pending" ? undefined : this.#seen.get(name);
    const ready = isReady(now);
    if (before?.isReady === ready) return before.since;
    const since = before === undefined ? (phaseAt ?? this.#clock.now()) : this.#clock.now();
    this.#seen.set(name, { isReady: ready, since });
    return since;
  }
}
