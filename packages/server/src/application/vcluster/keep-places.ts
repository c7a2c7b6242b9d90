// Writes down for the nodes where each cluster's API is, as follows from the clusters' records and the nodes'. One server does
// it at a time; what is so is compared with what should be, again and again.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { type ClusterPlace, placeCollection } from "@gpve/domain/vcluster/cluster-places.ts";
import { serverName } from "@gpve/domain/vcluster/cluster-front.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { answeringNode } from "./replicas/replica-nodes.ts";

export interface KeepPlacesDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Clock;
  readonly log: Pick<Logger, "warn">;
}

const LOOK_MS = 1_000;

export class KeepPlaces {
  readonly #deps: KeepPlacesDeps;

  constructor(deps: KeepPlacesDeps) {
    this.#deps = deps;
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps;
    await every(LOOK_MS, { clock, signal }, async () => {
      await this.look(signal).catch((err: unknown) => {
        if (!signal.aborted)
          log.warn({ err: messageOf(err) }, "nodes could not be told where virtual clusters are");
      });
    });
  }

  async look(signal: AbortSignal): Promise<void> {
    const { records } = this.#deps;
    const wanted = this.#wanted();
    const known = records.collection(placeCollection).list();
    const isSame = (place: ClusterPlace | undefined, other: ClusterPlace): boolean =>
      place?.node === other.node && place.address === other.address;
    if (known.length === wanted.size && known.every(({ id, value }) => isSame(wanted.get(id), value))) return;
    await records.transact(
      (tx) => {
        for (const { id } of tx.list(placeCollection)) if (!wanted.has(id)) tx.delete(placeCollection, id);
        for (const [id, place] of wanted) {
          const now = tx.get(placeCollection, id)?.value;
          if (now === undefined || !isSame(place, now)) tx.put(placeCollection, id, place);
        }
      },
      { signal },
    );
  }

  /** One node has nobody to pass anything on to. */
  #wanted(): ReadonlyMap<string, ClusterPlace> {
    const { records, board } = this.#deps;
    if (board.list().length < 2) return new Map();
    const all = records.collection(vclusterCollection).list();
    return new Map(
      all.flatMap(({ value: record }): [string, ClusterPlace][] => {
        const node = answeringNode(board, record);
        const address = board.get(node)?.address ?? "";
        const name = serverName(record.name, record.tenant);
        return address === "" ? [] : [[name, { serverName: name, node, address }]];
      }),
    );
  }
}
