// Every change of a cluster's phase goes through here: what the table does not know does not happen.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { nextVcPhase, type VcEvent } from "@gpve/domain/phase/vc-phases.ts";
import type { KeptCluster, KeptClusters } from "@gpve/domain/vcluster/ports.ts";

export class ClusterPhases {
  readonly #host: KeptClusters;
  readonly #changed: () => void;

  constructor(host: KeptClusters, changed: () => void) {
    this.#host = host;
    this.#changed = changed;
  }

  require(name: string): KeptCluster {
    const kept = this.#host.get(name);
    if (kept === undefined)
      throw new AppError("object.not_found", `there is no virtual cluster '${name}' on this node`);
    return kept;
  }

  save(cluster: KeptCluster): KeptCluster {
    this.#host.save(cluster);
    this.#changed();
    return cluster;
  }

  /** Throws where the event is none of its phase. */
  go(
    name: string,
    event: VcEvent,
    more: Partial<Pick<KeptCluster, "isWanted" | "message" | "spec">> = {},
  ): KeptCluster {
    const { message: _old, asleep: _before, wakeAt: _then, ...kept } = this.require(name);
    const phase = nextVcPhase(kept.phase, event);
    if (phase === undefined)
      throw new AppError(
        "object.conflict",
        `virtual cluster '${name}' is ${kept.phase}: ${event} is not possible then (docs/reference/vc-phases.md)`,
      );
    return this.save({ ...kept, ...more, phase });
  }

  /** The work on it failed: says so and why, where its phase can fail. */
  fail(name: string, err: unknown): void {
    const kept = this.#host.get(name);
    if (kept === undefined) return;
    const phase = nextVcPhase(kept.phase, "WorkFailed");
    if (phase !== undefined) this.save({ ...kept, phase, message: messageOf(err) });
  }
}
