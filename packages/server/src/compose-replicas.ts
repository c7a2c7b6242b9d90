// Wires what keeps control planes there into a server: the way in to them, and, on the server that leads, the repair of those of
// several replicas, the standbys of small stores, authorities whose time is over, room for volumes, and what nodes are told of where clusters are.
import { randomUUID } from "node:crypto";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import { isServerName } from "@gpve/domain/vcluster/cluster-front.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { ClusterPassages } from "@gpve/kit/net/cluster-passages.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { LeaseWatch } from "./application/ha/lease-watch.ts";
import type { Placer } from "./application/scheduler/placer.ts";
import { taskEnd } from "./application/task/task-end.ts";
import type { ClusterRotations } from "./application/vcluster/cluster-rotations.ts";
import { KeepRotations } from "./application/vcluster/keep-rotations.ts";
import { KeepPlaces } from "./application/vcluster/keep-places.ts";
import { KeepVolumeRooms } from "./application/vcluster/volumes/keep-volume-rooms.ts";
import type { QuotaView } from "./application/quota/quota-view.ts";
import { KeepStandbys } from "./application/vcluster/standby/keep-standbys.ts";
import type { RecordEvent } from "./application/v1/events.ts";
import { KeepReplicas } from "./application/vcluster/replicas/keep-replicas.ts";
import { replicaTargets } from "./application/vcluster/replicas/replica-nodes.ts";
import type { Lead } from "./infrastructure/leadership/store-leadership.ts";

export interface ReplicasParts {
  readonly records: Records;
  readonly clock: Clock;
  readonly board: NodeBoard & { isAwaited(node: string): boolean };
  readonly log: Logger;
  readonly calls: NodeCalls;
  readonly recordEvent: RecordEvent;
  readonly lead: Lead;
  readonly kinds: { readonly vclusterRotations: Pick<ClusterRotations, "begin"> };
  readonly quotas: Pick<QuotaView, "quotasOn" | "usage">;
  readonly scheduler: { readonly placer: Pick<Placer, "preview" | "settle"> };
}

export interface ComposedReplicas {
  /** Who takes connections that ask for that name; undefined = nobody. */
  readonly passOn: ClusterPassages["passOn"];
  /** Until the signal aborts; the returned promise resolves when nothing of it runs any more. */
  start(signal: AbortSignal): Promise<void>;
}

export function composeReplicas(parts: ReplicasParts): ComposedReplicas {
  const { records, clock, board, log, calls, lead, recordEvent } = parts;
  const passages = new ClusterPassages({
    // Every connection of every client is asked about: most names are none.
    targets: (name) =>
      isServerName(name) ? replicaTargets(board, valuesOf(records, vclusterCollection), name) : undefined,
    clock,
  });
  return {
    passOn: passages.passOn,
    start(signal) {
      const deps = {
        records,
        board,
        calls,
        clock,
        log,
        recordEvent,
        placer: parts.scheduler.placer,
        newRequestId: randomUUID,
        taskEnd: (upid: string, until: AbortSignal) => taskEnd(records, upid, until),
      };
      const leases = new LeaseWatch(records, clock);
      signal.addEventListener("abort", () => leases.close(), { once: true });
      const signs = {
        silentMs: (node: string) => leases.silentMs(node),
        isAwaited: (node: string) => board.isAwaited(node),
      };
      const keeper = new KeepReplicas(deps);
      const standbys = new KeepStandbys({ ...deps, signs });
      const places = new KeepPlaces({ records, board, clock, log });
      signal.addEventListener("abort", () => passages.close(), { once: true });
      const rotations = new KeepRotations({ ...deps, rotations: parts.kinds.vclusterRotations });
      const volumeRooms = new KeepVolumeRooms({ ...deps, quotas: parts.quotas });
      const work = [keeper, standbys, places, rotations, volumeRooms];
      return lead(
        "vcluster-replicas",
        (leading) => Promise.all(work.map((each) => each.run(leading))),
        signal,
      );
    },
  };
}
