// The authority before of a cluster on several nodes is dropped when its time is over, by the server that leads. One on one
// node is looked after by its node.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { keyOf, vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { asSystem } from "../node/as-system.ts";
import type { ClusterRotations } from "./cluster-rotations.ts";
import { runtimeOn } from "./replicas/replica-nodes.ts";

export interface KeepRotationsDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Clock;
  readonly log: Pick<Logger, "warn" | "info">;
  readonly rotations: Pick<ClusterRotations, "begin">;
  readonly newRequestId: () => string;
}

const EVERY_MS = 600_000;

export class KeepRotations {
  readonly #deps: KeepRotationsDeps;

  constructor(deps: KeepRotationsDeps) {
    this.#deps = deps;
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await every(EVERY_MS, { clock: this.#deps.clock, signal }, () => this.look(signal));
  }

  async look(signal: AbortSignal): Promise<void> {
    const { records, board, clock, log, rotations, newRequestId } = this.#deps;
    for (const { value: record } of records.collection(vclusterCollection).list()) {
      const { formerTrustedUntil = Infinity } = runtimeOn(board, record.node, keyOf(record)) ?? {};
      if (record.isLeaving === true || formerTrustedUntil > clock.now()) continue;
      const about = { resource: `vcluster/${keyOf(record)}` };
      log.info(about, "the time of a virtual cluster's old authority is over: it is dropped");
      const requestId = newRequestId();
      const asking = asSystem({ work: "vcluster-rotation", requestId, signal });
      await rotations
        .begin(record, { dropOld: true }, asking, requestId)
        .catch((err: unknown) =>
          log.warn(
            { ...about, err: messageOf(err) },
            "the old authority of a virtual cluster is not dropped yet; tried again later",
          ),
        );
    }
  }
}
