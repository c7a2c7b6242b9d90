// Tells the servers of this node, a few times a minute, and of guests that start or end at once. A line is one server;
// its reports go one after the other, so a later one is never overtaken by an earlier one.
import { given } from "@gpve/contracts/given.ts";
import type {
  GuestEnd,
  GuestRuntime,
  NodeFacts,
  NodeReport,
  NodeReserve,
  NodeUsage,
  StorageRuntime,
} from "@gpve/domain/node/runtime.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { NodeDefaults } from "@gpve/domain/vm/spec/vm-defaults.ts";
import type { VirtualClusterRuntime, StandbyRow } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { ReportLine } from "./report-line.ts";

export interface ReporterDeps {
  readonly node: string;
  readonly agentVersion: string;
  readonly clock: Clock;
  readonly usage: () => Promise<NodeUsage>;
  /** Facts known so far, and a number that grows when they change. */
  readonly facts: () => { readonly facts: NodeFacts; readonly generation: number };
  readonly guests: () => readonly GuestRuntime[];
  /** Which guests run, as a text that changes with them. Asked often: cheap. */
  readonly running: () => string;
  readonly storages: () => Promise<readonly StorageRuntime[]>;
  readonly ends: () => readonly GuestEnd[];
  readonly vclusters: () => readonly VirtualClusterRuntime[];
  readonly standbys: () => readonly StandbyRow[];
  readonly reserve?: NodeReserve;
  readonly defaults: () => NodeDefaults;
  readonly declaredStorages?: readonly StorageDefinition[];
}

export interface FollowOptions {
  readonly signal: AbortSignal;
  readonly intervalMs?: number;
  /** Whether this server has lost the facts; asked before each report. */
  readonly wantsFacts?: () => boolean;
  /** Without it the first failure ends the line. */
  readonly onError?: (err: unknown) => void;
}

export interface Reporter {
  /** Reports until the signal fires. A `send` that has resolved was taken in by the server. */
  follow(send: (report: NodeReport) => Promise<unknown> | void, options: FollowOptions): Promise<void>;
  /** Something happened that lists should show soon. */
  hurry(): void;
  /**
   * Resolves when every server in reach knows which guests run now. One that takes too long is not waited for: it is
   * the server that is slow then, and the work here is done.
   */
  told(): Promise<void>;
}

const INTERVAL_MS = 2_500;
const PATIENCE_MS = 2_000;

export function createReporter(deps: ReporterDeps): Reporter {
  const lines = new Set<ReportLine>();
  const { running } = deps;
  return {
    hurry() {
      for (const line of lines) line.hurry();
    },
    async told() {
      if (lines.size === 0) return;
      const now = running();
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const cancel = deps.clock.after(PATIENCE_MS, resolve);
      await Promise.race([Promise.all([...lines].map((line) => line.knows(now))), late]);
      cancel();
    },
    async follow(send, { signal, intervalMs = INTERVAL_MS, wantsFacts, onError }) {
      const line = new ReportLine(deps.clock);
      lines.add(line);
      let sent = -1;
      try {
        while (!signal.aborted) {
          try {
            const usage = await deps.usage();
            const storages = await deps.storages();
            const { facts, generation } = deps.facts();
            const isNew = generation !== sent || wantsFacts?.() === true;
            line.taken(running());
            const report: NodeReport = {
              node: deps.node,
              at: deps.clock.now(),
              agentVersion: deps.agentVersion,
              ...(isNew ? { facts } : {}),
              usage,
              guests: deps.guests(),
              storages,
              ends: deps.ends(),
              defaults: deps.defaults(),
              ...given({ reserve: deps.reserve }),
              ...given({ declaredStorages: deps.declaredStorages }),
              vclusters: deps.vclusters(),
              standbys: deps.standbys(),
            };
            await send(report);
            line.delivered();
            sent = generation;
          } catch (err) {
            if (onError === undefined || signal.aborted) throw err;
            onError(err);
          }
          await line.untilDue(intervalMs, signal);
        }
      } catch (err) {
        if (!signal.aborted) throw err;
      } finally {
        lines.delete(line);
        line.close();
      }
    },
  };
}
