// Wires what keeps control planes there into a server: the way in to them, and, on the server that leads, the repair of those of
// several replicas, the standbys of small stores, and what nodes are told of where clusters are.
import { randomUUID } from "node:crypto";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { isServerName } from "@gpve/domain/vcluster/cluster-front.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { ClusterPassages } from "@gpve/kit/net/cluster-passages.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { LeaseWatch } from "./application/ha/lease-watch.ts";
import { taskEnd } from "./application/task/task-end.ts";
import { KeepPlaces } from "./application/vcluster/keep-places.ts";
import { KeepStandbys } from "./application/vcluster/standby/keep-standbys.ts";
import type { RecordEvent } from "./application/v1/events.ts";
import { KeepReplicas } from "./application/vcluster/replicas/keep-replicas.ts";
import { replicaTargets } from "./application/vcluster/replicas/replica-nodes.ts";
import { whileLeading } from "./infrastructure/leadership/store-leadership.ts";

export interface ReplicasParts {
  readonly records: Records;
  readonly store: Store;
  readonly clock: Clock;
  readonly board: NodeBoard & { isAwaited(node: string): boolean };
  readonly log: Logger;
  readonly calls: NodeCalls;
  readonly recordEvent: RecordEvent;
  /** Who stands for repairing them. */
  readonly candidate: string;
}

export interface ComposedReplicas {
  /** Who takes connections that ask for that name; undefined = nobody. */
  readonly passOn: ClusterPassages["passOn"];
  /** Until the signal aborts; the returned promise resolves when nothing of it runs any more. */
  start(signal: AbortSignal): Promise<void>;
}

export function composeReplicas(parts: ReplicasParts): ComposedReplicas {
  const { records, store, clock, board, log, calls, candidate, recordEvent } = parts;
  const passages = new ClusterPassages({
    targets: (serverName) => {
      // Every connection of every client is asked about.
      if (!isServerName(serverName)) return undefined;
      const all = records.collection(vclusterCollection).list();
      return replicaTargets(
        board,
        all.map(({ value }) => value),
        serverName,
      );
    },
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
        newRequestId: randomUUID,
        taskEnd: (upid: string, until: AbortSignal) => taskEnd(records, upid, until),
      };
      const leases = new LeaseWatch(records, clock);
      signal.addEventListener("abort", () => leases.close(), { once: true });
      const signs = {
        leaseUnchangedMs: (node: string) => {
          const { lease, unchangedMs } = leases.of(node);
          return lease === undefined ? undefined : unchangedMs;
        },
        isAwaited: (node: string) => board.isAwaited(node),
      };
      const keeper = new KeepReplicas(deps);
      const standbys = new KeepStandbys({ ...deps, signs });
      const places = new KeepPlaces({ records, board, clock, log });
      const leading = whileLeading(
        { store, clock, log, name: "/gpve/leaders/vcluster-replicas/", candidate },
        async (lead) => {
          await Promise.all([keeper.run(lead), standbys.run(lead), places.run(lead)]);
        },
        signal,
      );
      signal.addEventListener("abort", () => passages.close(), { once: true });
      background(log, "replicas of virtual clusters", leading);
      return leading.catch(() => undefined);
    },
  };
}
