// Changes of the number of workers are seen to their end by the server that leads, whichever began them.
import { messageOf } from "@gpve/contracts/errors.ts";
import { type ClusterScale, scaleCollection } from "@gpve/domain/vcluster/vnode/cluster-scale.ts";
import { nodesOf, vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { settleScale, type SettleScaleDeps } from "./settle-scale.ts";

export interface KeepScalesDeps extends SettleScaleDeps {
  readonly clock: Clock;
  readonly log: Pick<Logger, "debug" | "info" | "error">;
}

interface Seen {
  readonly requestId: string;
  readonly firstAt: number;
  notBefore: number;
  /** While it is being seen to. */
  settling: AbortController | undefined;
}

const LOOK_MS = 1_000;
/** Nodes that were not told may be told just now, by the server that began it. */
const TELLING_MS = 120_000;
const AGAIN_MS = 30_000;

export class KeepScales {
  readonly #deps: KeepScalesDeps;
  readonly #seen = new Map<string, Seen>();

  constructor(deps: KeepScalesDeps) {
    this.#deps = deps;
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await every(LOOK_MS, { clock: this.#deps.clock, signal }, () => this.look(signal));
  }

  /** Begins with those that are to be seen to now. */
  look(signal: AbortSignal): void {
    const { records, clock, log } = this.#deps;
    const all = new Map(
      records
        .collection(scaleCollection)
        .list()
        .map(({ id, value }) => [id, value]),
    );
    for (const [id, { requestId, settling }] of this.#seen) {
      const scale = all.get(id);
      if (scale?.requestId === requestId && this.#nodes(scale) !== undefined) continue;
      // What is over, or has become another, is not waited for.
      settling?.abort();
      if (scale?.requestId !== requestId) this.#seen.delete(id);
    }
    for (const [id, scale] of all) {
      const now = clock.monotonic();
      const fresh = { requestId: scale.requestId, firstAt: now, notBefore: now, settling: undefined };
      const seen = this.#seen.get(id) ?? fresh;
      this.#seen.set(id, seen);
      if (seen.settling === undefined && this.#isDue(seen, scale))
        background(log, `the workers of virtual cluster ${scale.key}`, this.#settle(scale, seen, signal));
    }
  }

  #isDue({ firstAt, notBefore }: Seen, scale: ClusterScale): boolean {
    const now = this.#deps.clock.monotonic();
    const nodes = this.#nodes(scale) ?? [];
    const areTold = nodes.every((node) => scale.told.some((each) => each.node === node));
    return now >= notBefore && (areTold || now >= firstAt + TELLING_MS);
  }

  async #settle(scale: ClusterScale, seen: Seen, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps;
    const stop = new AbortController();
    seen.settling = stop;
    try {
      await settleScale(this.#deps, scale, AbortSignal.any([signal, stop.signal]));
    } catch (err) {
      if (signal.aborted || stop.signal.aborted) return;
      seen.notBefore = clock.monotonic() + AGAIN_MS;
      log.debug(
        { resource: `vcluster/${scale.key}`, err: messageOf(err) },
        "what counts of its workers is as it was",
      );
    } finally {
      seen.settling = undefined;
    }
  }

  /** undefined = the cluster is gone. */
  #nodes({ key }: ClusterScale): readonly string[] | undefined {
    const record = this.#deps.records.collection(vclusterCollection).get(key)?.value;
    return record === undefined ? undefined : nodesOf(record);
  }
}
