// From one version of Kubernetes to the next: the control plane, then worker after worker. Each part has to prove itself
// before the next one goes; where one does not, everything is again what it was, the store included.
//
//   prepare ──> control plane ──> workers ──> finish
//      └───────────────┴─────────────┴── undone in the opposite order: workers must not be newer than their API server
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { ClusterSaves } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import type { ClusterHost, KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { ClusterPhases } from "../cluster-phases.ts";
import type { ClusterWays } from "../power/cluster-ways.ts";
import { standGuard } from "../../vnode/stand-guard.ts";
import { requireHealthy } from "./health-gate.ts";
import { upgradeWorker } from "./upgrade-worker.ts";

export const UPGRADE_CLUSTER = "vcupgrade";

export interface UpgradeArgs {
  readonly name: string;
  /** In full. */
  readonly version: string;
  /** Workers are emptied first. */
  readonly drain: boolean;
}

type State = {
  from?: string;
  /** Nothing of the new version is left. */
  isBack?: boolean;
  /** Workers that were begun with. */
  workers?: string[];
};

type Ctx = StepContext<UpgradeArgs, State>;

export interface UpgradeDeps {
  readonly host: ClusterHost;
  readonly phases: ClusterPhases;
  readonly ways: Pick<ClusterWays, "hold" | "unhold" | "tell">;
  readonly saves: Pick<ClusterSaves, "keep" | "bringBack" | "isKept" | "drop">;
  readonly vnodes: Pick<VnodeHost, "list" | "restartPart" | "lastWords">;
  readonly api: ClusterApi;
  readonly ensureComponent: (name: string, version: string, ctx: StepContext) => Promise<void>;
  readonly limits?: UpgradeLimits;
}

export interface UpgradeLimits {
  /** Controllers and scheduler that cannot work end within this time. */
  readonly settleMs: number;
  /** A worker that is not ready after this will not be. */
  readonly readyMs: number;
}

const LIMITS: UpgradeLimits = { settleMs: 3_000, readyMs: 180_000 };

/** It stays after the upgrade, until the next one. */
const SAVED = "upgrade";

export function upgradeClusterOperation(deps: UpgradeDeps): OperationDefinition<UpgradeArgs, State> {
  const { host, phases, ways, saves, limits = LIMITS } = deps;
  /** Whoever connects meanwhile waits: what he writes must not be lost when it goes back. */
  const exchange = async (ctx: Ctx, version: string, between: () => Promise<void>): Promise<void> => {
    const { name } = ctx.args;
    await ways.hold(name);
    try {
      phases.save({ ...phases.require(name), isSwitching: true });
      await host.stop(phases.require(name));
      await between();
      const cluster = phases.save({ ...phases.require(name), version });
      await host.start(cluster, ctx.signal, ctx.log);
      await requireHealthy(deps, cluster, ctx, limits.settleMs);
      // Each version keeps its guard in its own way.
      if (deps.vnodes.list(name).length > 0) await standGuard(deps.api, cluster, ctx);
      const { isSwitching: _done, ...settled } = phases.require(name);
      phases.save(settled);
    } finally {
      ways.unhold(name);
    }
    await ways.tell();
  };
  return {
    type: UPGRADE_CLUSTER,
    onCrash: "undo",
    initialState: () => ({}),
    steps: [
      {
        name: "prepare",
        weight: 2,
        run: async (ctx) => {
          const { name, version } = ctx.args;
          const cluster = phases.require(name);
          ctx.state.from ??= cluster.version;
          await deps.ensureComponent("kubernetes", version, ctx);
          saves.drop(name, SAVED);
          await ctx.checkpoint();
          if (cluster.phase !== "Upgrading") phases.go(name, "UpgradeRequested");
        },
        undo: ({ args, state, log }) => {
          const { name } = args;
          const { phase, version } = phases.require(name);
          if (phase !== "Upgrading") return;
          const both = `neither Kubernetes ${args.version} nor ${state.from ?? "what was before"} could be started`;
          if (state.isBack === false) {
            const { isSwitching: _left, ...cluster } = phases.require(name);
            phases.save(cluster);
            phases.fail(name, new AppError("internal.error", both));
          } else {
            phases.go(name, "UpgradeCompleted");
            log(`virtual cluster ${name} runs Kubernetes ${version} as before`);
          }
        },
      },
      {
        name: "control plane",
        weight: 4,
        run: async (ctx) => {
          const { name, version } = ctx.args;
          ctx.log(`control plane goes from ${ctx.state.from} to ${version}`);
          await exchange(ctx, version, async () => {
            // Once: what the new version has written is not to come back to.
            if (!saves.isKept(name, SAVED))
              await saves.keep(phases.require(name), SAVED, { signal: ctx.signal, say: ctx.log });
          });
          ctx.log(`control plane runs ${version}`);
        },
        undo: async (ctx) => {
          const { name } = ctx.args;
          const { from = "" } = ctx.state;
          ctx.state.isBack = false;
          ctx.log(`control plane goes back to ${from}`);
          await exchange(ctx, from, async () => {
            const cluster = phases.require(name);
            if (saves.isKept(name, SAVED))
              await saves.bringBack(cluster, SAVED, { signal: ctx.signal, say: ctx.log });
          });
          ctx.state.isBack = true;
        },
      },
      {
        name: "workers",
        weight: 4,
        run: async (ctx) => {
          const { name, drain } = ctx.args;
          const cluster = phases.require(name);
          for (const vnode of deps.vnodes.list(name)) {
            ctx.state.workers = [...(ctx.state.workers ?? []), vnode.name];
            await ctx.checkpoint();
            await upgradeWorker(deps, cluster, vnode, { ctx, drain, readyMs: limits.readyMs });
          }
        },
        undo: async (ctx) => {
          const { name } = ctx.args;
          const cluster: KeptCluster = { ...phases.require(name), version: ctx.state.from ?? "" };
          const begun = new Set(ctx.state.workers);
          for (const vnode of deps.vnodes.list(name).filter((each) => begun.has(each.name)))
            try {
              await upgradeWorker(deps, cluster, vnode, { ctx, drain: false, readyMs: limits.readyMs });
            } catch (err) {
              // It is asked for again by whoever keeps workers whole.
              ctx.warn(`${vnode.name} is not ready in ${cluster.version} yet: ${messageOf(err)}`);
            }
        },
      },
      {
        name: "finish",
        weight: 0.1,
        run: (ctx) => {
          const { name, version } = ctx.args;
          const cluster = phases.require(name);
          if (cluster.phase !== "Upgrading") return;
          phases.save({ ...cluster, spec: { ...cluster.spec, kubernetesVersion: version } });
          phases.go(name, "UpgradeCompleted");
          ctx.log(`virtual cluster ${name} runs Kubernetes ${version}; its store as it was before is kept`);
        },
        undo: (ctx) => {
          const cluster = phases.require(ctx.args.name);
          if (cluster.phase === "Running") phases.go(cluster.name, "UpgradeRequested");
        },
      },
    ],
  };
}
