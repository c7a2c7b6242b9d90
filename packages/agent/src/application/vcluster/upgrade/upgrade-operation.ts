// From one version of Kubernetes to the next: the control plane, then worker after worker. Each part has to prove itself
// before the next one goes; where one does not, everything is again what it was, the store included.
//
//   prepare ──> control plane ──> workers ──> finish
//      └───────────────┴─────────────┴── undone in the opposite order: workers must not be newer than their API server
//
// Of a cluster on several nodes a server leads: control plane after control plane, then the workers of node after node.
// One replica of several goes while the others serve; its store is theirs too, and nothing of it is put back.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { ClusterSaves } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import { isBranch, replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { requireUpgradePath } from "@gpve/domain/vcluster/upgrade-path.ts";
import type { VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { ClusterPhases } from "../cluster-phases.ts";
import type { ClusterWays } from "../power/cluster-ways.ts";
import { standGuard } from "../../vnode/stand-guard.ts";
import { type HealthPorts, requireHealthy } from "./health-gate.ts";
import { upgradeWorker } from "./upgrade-worker.ts";

export const UPGRADE_CLUSTER = "vcupgrade";

export interface UpgradeArgs {
  readonly name: string;
  /** In full. */
  readonly version: string;
  /** Workers are emptied first. */
  readonly drain: boolean;
  /** Of a cluster on several nodes: what a server has this node do now, and the version that it had. */
  readonly part?: { readonly only: "control plane" | "workers"; readonly from: string };
}

type State = {
  from?: string;
  /** Nothing of the new version is left. */
  isBack?: boolean;
  /** Workers that were begun with. */
  workers?: string[];
};

type Ctx = StepContext<UpgradeArgs, State>;

export interface UpgradeDeps extends HealthPorts {
  readonly phases: ClusterPhases;
  readonly ways: Pick<ClusterWays, "hold" | "unhold" | "tell">;
  readonly saves: Pick<ClusterSaves, "keep" | "bringBack" | "isKept" | "drop">;
  readonly vnodes: Pick<VnodeHost, "list" | "exchange" | "lastWords">;
  readonly ensureComponent: (name: string, version: string, ctx: StepContext) => Promise<void>;
  readonly limits?: UpgradeLimits;
}

export interface UpgradeLimits {
  /** Controllers and scheduler that cannot work end within this time. */
  readonly settleMs: number;
  /** A worker that is not ready after this will not be. */
  readonly readyMs: number;
  /** So with one that is a machine, which has to boot, perhaps emulated. */
  readonly machineReadyMs: number;
}

const LIMITS: UpgradeLimits = { settleMs: 3_000, readyMs: 180_000, machineReadyMs: 900_000 };

/** It stays after the upgrade, until the next one. */
const SAVED = "upgrade";

export function upgradeClusterOperation(deps: UpgradeDeps): OperationDefinition<UpgradeArgs, State> {
  const { host, phases, ways, saves, limits = LIMITS } = deps;
  /** Whoever connects meanwhile waits: what he writes must not be lost when it goes back. */
  const exchange = async (ctx: Ctx, version: string, between: () => Promise<void>): Promise<void> => {
    const { name } = ctx.args;
    const isReplica = isOneOfSeveral(phases.require(name));
    // Another replica answers meanwhile.
    if (!isReplica) await ways.hold(name);
    try {
      phases.save({ ...phases.require(name), isSwitching: true });
      await host.stop(phases.require(name));
      await between();
      const cluster = phases.save({ ...phases.require(name), version });
      await host.start(cluster, ctx.signal, ctx.log);
      await host.furnish(cluster, ctx.signal);
      // Each version keeps its guard in its own way, and replicas of the one before need theirs. Workers are there: nothing is
      // waited for before it stands.
      if (deps.vnodes.list(name).length > 0)
        await standGuard(deps.api, cluster, ctx, { keepsObjects: isReplica });
      await requireHealthy(deps, cluster, ctx, limits.settleMs);
      const { isSwitching: _done, ...settled } = phases.require(name);
      phases.save(settled);
    } finally {
      if (!isReplica) ways.unhold(name);
    }
    await ways.tell();
  };
  const readyMs = (cluster: KeptCluster): number =>
    isMachines(cluster) ? limits.machineReadyMs : limits.readyMs;
  const keep = (ctx: Ctx) =>
    saves.keep(phases.require(ctx.args.name), SAVED, { signal: ctx.signal, say: ctx.log });
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
          // It has waited for its turn: the one before may have been an upgrade too. Of its parts a server has judged it.
          if (ctx.args.part === undefined && ctx.state.from === undefined)
            requireUpgradePath(name, cluster.version, version);
          ctx.state.from ??= ctx.args.part?.from ?? cluster.version;
          await deps.ensureComponent("kubernetes", version, ctx);
          if (does(ctx.args, "control plane")) saves.drop(name, SAVED);
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
          if (!does(ctx.args, "control plane")) return;
          ctx.log(`control plane goes from ${ctx.state.from} to ${version}`);
          const isReplica = isOneOfSeveral(phases.require(name));
          // Once: what the new version has written is not to come back to. The store of several is read while it serves.
          if (isReplica && !saves.isKept(name, SAVED)) await keep(ctx);
          await exchange(ctx, version, async () => {
            if (!saves.isKept(name, SAVED)) await keep(ctx);
          });
          ctx.log(`control plane runs ${version}`);
        },
        undo: async (ctx) => {
          const { name } = ctx.args;
          const { from = "" } = ctx.state;
          if (!does(ctx.args, "control plane")) return;
          ctx.state.isBack = false;
          ctx.log(`control plane goes back to ${from}`);
          await exchange(ctx, from, async () => {
            const cluster = phases.require(name);
            // The other replicas have answered meanwhile, and read what either version writes.
            if (!isOneOfSeveral(cluster) && saves.isKept(name, SAVED))
              await saves.bringBack(cluster, SAVED, { signal: ctx.signal, say: ctx.log });
          });
          ctx.state.isBack = true;
        },
      },
      {
        name: "workers",
        weight: 4,
        run: async (ctx) => {
          const { name, version, drain } = ctx.args;
          if (!does(ctx.args, "workers")) return;
          const cluster = { ...phases.require(name), version };
          if (isBranch(cluster)) phases.save(cluster);
          const vnodes = deps.vnodes.list(name);
          // Pods end with their machine: where there is another, they go there first.
          const isDrained = drain || (isMachines(cluster) && vnodes.length > 1);
          for (const vnode of vnodes) {
            ctx.state.workers = [...(ctx.state.workers ?? []), vnode.name];
            await ctx.checkpoint();
            await upgradeWorker(deps, cluster, vnode, { ctx, drain: isDrained, readyMs: readyMs(cluster) });
          }
        },
        undo: async (ctx) => {
          const { name } = ctx.args;
          if (!does(ctx.args, "workers")) return;
          const cluster: KeptCluster = { ...phases.require(name), version: ctx.state.from ?? "" };
          if (isBranch(cluster)) phases.save(cluster);
          const begun = new Set(ctx.state.workers);
          for (const vnode of deps.vnodes.list(name).filter((each) => begun.has(each.name)))
            try {
              await upgradeWorker(deps, cluster, vnode, { ctx, drain: false, readyMs: readyMs(cluster) });
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

function does({ part }: UpgradeArgs, what: "control plane" | "workers"): boolean {
  return part === undefined || part.only === what;
}

function isMachines({ spec }: KeptCluster): boolean {
  return spec.isolationLevel === "L3";
}

function isOneOfSeveral({ overlay }: KeptCluster): boolean {
  return replicaSlot(overlay) !== undefined;
}
