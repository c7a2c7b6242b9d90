// Wires the scheduler: one state for placements, explanations, simulations and plans.
import { readPolicy } from "@gpve/domain/scheduler/policy.ts";
import { ulid } from "ulid";
import type { Clock } from "@gpve/kit/clock.ts";
import type { SchedulerConfiguration } from "@gpve/kit/config/configuration.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { simulateRecovery } from "./application/ha/simulate-recovery.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import type { MemoryNodeBoard } from "./application/node/board.ts";
import { ClusterView } from "./application/scheduler/cluster-view.ts";
import { ExplainPlacement } from "./application/scheduler/explain-placement.ts";
import { GuestRules, keepPlacements, type GuestRulesDeps } from "./application/scheduler/guest-rules.ts";
import { PlaceGuest } from "./application/scheduler/place-guest.ts";
import { Placer } from "./application/scheduler/placer.ts";
import { DEFAULT_REBALANCE, Rebalancer } from "./application/scheduler/rebalancer.ts";
import { SchedulerFigures } from "./application/scheduler/scheduler-figures.ts";
import { ExplainCluster } from "./application/vcluster/explain-cluster.ts";
import { celPlugins } from "./infrastructure/scheduler/cel-plugins.ts";
import type { Lead } from "./infrastructure/leadership/store-leadership.ts";
import { httpExtenders } from "./infrastructure/scheduler/http-extenders.ts";

export interface Scheduler {
  /** The port for whatever is placed. */
  readonly placer: Placer;
  readonly guests: PlaceGuest;
  readonly rules: GuestRules;
  readonly explain: ExplainPlacement;
  readonly clusters: ExplainCluster;
  readonly figures: SchedulerFigures;
  readonly view: ClusterView;
  readonly rebalancer: Rebalancer;
  /** Plans of moves, while this server is the one that looks after them; until the signal aborts. */
  startRebalancing(parts: {
    readonly calls: NodeCalls;
    readonly lead: Lead;
    readonly signal: AbortSignal;
  }): Promise<void>;
  stop(): void;
}

export function composeScheduler(parts: {
  readonly records: Records;
  readonly board: MemoryNodeBoard;
  readonly clock: Clock;
  readonly log: Logger;
  readonly config: SchedulerConfiguration | undefined;
  readonly quotas: GuestRulesDeps["quotas"];
}): Scheduler {
  const { records, config, log, clock } = parts;
  const policy = readPolicy(
    { defaultStrategy: config?.defaultStrategy, ...config?.plugins },
    celPlugins(config?.expressions ?? [], log),
  );
  const view = new ClusterView(parts);
  const figures = new SchedulerFigures();
  const extend = httpExtenders(config?.extenders ?? [], { view, log });
  const placer = new Placer({ ...parts, view, policy, extend, figures });
  const settings = config?.rebalance ?? DEFAULT_REBALANCE;
  const rebalancer = new Rebalancer({ ...parts, view, policy, extend, settings, figures, newId: ulid });
  const stops = [() => placer.stop(), () => view.stop(), keepPlacements(parts)];
  return {
    placer,
    guests: new PlaceGuest({ placer, records, clock }),
    rules: new GuestRules(parts),
    explain: new ExplainPlacement({
      records,
      view,
      policy,
      policyFor: (request, signal) => placer.policyFor(request, signal),
      policyToExplain: (request, signal) => placer.policyToExplain(request, signal),
      recovery: (lost) => simulateRecovery(parts, lost),
    }),
    clusters: new ExplainCluster({ records, board: parts.board, view, placer }),
    figures,
    view,
    rebalancer,
    startRebalancing: ({ calls, lead, signal }) =>
      lead("rebalance", (leading) => rebalancer.run(calls, leading), signal),
    stop: () => stops.forEach((stop) => stop()),
  };
}
