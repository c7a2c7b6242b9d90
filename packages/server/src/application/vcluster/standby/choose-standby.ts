// Which node follows a cluster's store, and could go on with it: one that the cluster could have been placed on.
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { Explanation } from "@gpve/domain/scheduler/explain.ts";
import { keyOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Placer } from "../../scheduler/placer.ts";
import { partAt, standbyFilters } from "../placing/choose-node.ts";

export interface StandbyChoiceDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly placer: Pick<Placer, "preview">;
  readonly clock: Clock;
}

export interface ChosenStandby {
  readonly node: string;
  readonly explanation: Explanation;
}

/** Where no node fits, nodes are asked about again after that. */
const AGAIN_MS = 5_000;

export class StandbyChoice {
  readonly #deps: StandbyChoiceDeps;
  readonly #notBefore = new Map<string, number>();

  constructor(deps: StandbyChoiceDeps) {
    this.#deps = deps;
  }

  /** It takes no room while it follows: nothing is promised, and a node that is full is better than none. undefined = no node fits
   * now. */
  async of(record: VirtualClusterRecord, signal: AbortSignal): Promise<ChosenStandby | undefined> {
    const { clock, placer } = this.#deps;
    const key = keyOf(record);
    if ((this.#notBefore.get(key) ?? 0) > clock.monotonic()) return undefined;
    this.#notBefore.delete(key);
    const request = partAt(record, record.node, "standby");
    const filters = standbyFilters(this.#deps, record);
    try {
      for (const asked of [request, { ...request, demand: { cpu: 0, memory: 0 } }]) {
        const explanation = await placer.preview(asked, signal, filters);
        const { node } = explanation;
        if (node !== undefined) return { node, explanation };
      }
    } catch (err) {
      signal.throwIfAborted();
      ignore(err, "an extender does not answer: no node fits now");
    }
    this.#notBefore.set(key, clock.monotonic() + AGAIN_MS);
    return undefined;
  }
}
