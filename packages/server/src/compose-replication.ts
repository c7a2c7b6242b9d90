// Wires replication into a server: its methods, what starts those that are due, on one server of the cluster, and failover.
import { createHash, randomUUID } from "node:crypto";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { Failover } from "./application/replication/failover.ts";
import { ReplicationJobs } from "./application/replication/replication-jobs.ts";
import { DueReplications } from "./application/replication/due-replications.ts";
import { hostZone } from "./infrastructure/host/host-zone.ts";
import type { Lead } from "./infrastructure/leadership/store-leadership.ts";
import { createReplicationHandlers } from "./presentation/http/cluster/replication-handlers.ts";

export interface ReplicationParts {
  readonly records: Records;
  readonly clock: Clock;
  readonly board: NodeBoard;
  readonly log: Logger;
  readonly calls: NodeCalls;
  readonly storages: () => readonly StorageDefinition[];
  readonly lead: Lead;
}

export interface ComposedReplication {
  readonly handlers: PveHandlers;
  readonly failover: Failover;
  /** Until the signal aborts; the returned promise resolves when nothing of it runs any more. */
  start(signal: AbortSignal): Promise<void>;
}

export function composeReplication(parts: ReplicationParts): ComposedReplication {
  const { records, clock, board, log, calls, storages, lead } = parts;
  const zone = hostZone({ tz: process.env["TZ"] });
  const digestOf = (text: string): string => createHash("sha1").update(text).digest("hex");
  const config = ({ vmid, conf }: GuestRecord): VmConfig => parseVmConfig(conf, { vmid, digestOf });
  const knowsNode = (node: string): boolean => board.get(node) !== undefined;
  const jobs = new ReplicationJobs({ records, clock, zone, knowsNode, storages, config });
  return {
    handlers: createReplicationHandlers({
      jobs,
      taskLog: ({ upid, node }, range, ctx) =>
        calls.call(node, "GET /nodes/{node}/tasks/{upid}/log", { upid, ...range }, ctx),
    }),
    failover: new Failover({ records, board, calls, clock, log, storages, config }),
    start(signal) {
      const due = new DueReplications({
        records,
        jobs,
        board,
        calls,
        clock,
        zone,
        newRequestId: randomUUID,
        log,
      });
      return lead("replication", (leading) => due.run(leading), signal);
    },
  };
}
