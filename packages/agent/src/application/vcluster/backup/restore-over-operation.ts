// A backup in place of a cluster that is there. Until the restored one runs, the one before can come back: its store, its
// keys and the disks of its workers are put away first.
//
//   stop ──> put away ──> fill ──> start ──> forget
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterSaves, SaveWork } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import type { Identity } from "@gpve/domain/vcluster/backup/identity.ts";
import type { ClusterRuns, KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import { LeftAsItIs, type OperationDefinition, type StepContext } from "@gpve/kit/operation/definition.ts";
import type { Workers } from "../../vnode/workers.ts";
import type { ClusterPhases } from "../cluster-phases.ts";
import type { ArchivePlaces } from "./archive-places.ts";

export const RESTORE_OVER_CLUSTER = "vcrestoreover";

export interface RestoreOverArgs {
  readonly name: string;
  /** Its volume. */
  readonly archive: string;
  /** "fresh" of another cluster: this one keeps the authorities that it has. */
  /** Absent: it was begun by an agent that always took all of it. */
  readonly identity?: Identity;
  readonly spec: VirtualClusterSpec;
  readonly version: string;
}

type State = {
  before?: Pick<KeptCluster, "spec" | "version"> & { readonly wasRunning: boolean };
  /** What was before is overwritten, and is not back. */
  isGone?: boolean;
};

type Ctx = StepContext<RestoreOverArgs, State>;

export interface RestoreOverDeps {
  readonly host: ClusterRuns;
  readonly phases: ClusterPhases;
  readonly saves: ClusterSaves;
  readonly places: Pick<ArchivePlaces, "file">;
  readonly vnodes: Pick<VnodeHost, "list" | "remove">;
  readonly workers: Pick<Workers, "bring" | "stop">;
  readonly ensureComponent: (name: string, version: string, ctx: StepContext) => Promise<void>;
}

const BEFORE = "before-restore";

export function restoreOverOperation(deps: RestoreOverDeps): OperationDefinition<RestoreOverArgs, State> {
  const { host, phases, saves, workers, vnodes } = deps;
  const start = async (ctx: Ctx): Promise<void> => {
    const cluster = phases.require(ctx.args.name);
    await host.start(cluster, ctx.signal, ctx.log);
    await host.furnish(cluster, ctx.signal);
    await workers.bring(cluster, ctx);
    if (cluster.phase === "Running") return;
    // One that did not end is on its way there still.
    if (cluster.phase === "Stopping") phases.go(cluster.name, "StopCompleted");
    phases.go(cluster.name, "StartRequested", { isWanted: true });
  };
  const stop = async (name: string): Promise<void> => {
    if (phases.require(name).phase === "Running") phases.go(name, "StopRequested", { isWanted: false });
    await workers.stop(phases.require(name));
    await host.stop(phases.require(name));
    if (phases.require(name).phase === "Stopping") phases.go(name, "StopCompleted");
  };
  return {
    type: RESTORE_OVER_CLUSTER,
    onCrash: "resume",
    initialState: () => ({}),
    steps: [
      {
        name: "stop",
        weight: 1,
        run: async (ctx) => {
          if (ctx.state.before === undefined && saves.isKept(ctx.args.name, BEFORE))
            throw kept(ctx.args.name);
          const { spec, version, phase } = requireStill(phases.require(ctx.args.name));
          await deps.ensureComponent("kubernetes", ctx.args.version, ctx);
          ctx.state.before ??= { spec, version, wasRunning: phase === "Running" };
          await ctx.checkpoint();
          await stop(ctx.args.name);
          ctx.log("it is stopped");
        },
        undo: async (ctx) => {
          if (ctx.state.before?.wasRunning === true && ctx.state.isGone !== true) await start(ctx);
        },
      },
      {
        name: "put away",
        weight: 1,
        run: async (ctx) => {
          const cluster = phases.require(ctx.args.name);
          await saves.keep(cluster, BEFORE, workOf(ctx));
          saves.putWorkersAway(cluster.name, BEFORE);
        },
        undo: async (ctx) => {
          const cluster = phases.require(ctx.args.name);
          saves.bringWorkersBack(cluster.name, BEFORE);
          if (ctx.state.isGone === true && saves.isKept(cluster.name, BEFORE))
            throw new LeftAsItIs(kept(cluster.name).message);
          saves.drop(cluster.name, BEFORE);
        },
      },
      {
        name: "fill",
        weight: 3,
        run: async (ctx) => {
          const { name, archive, identity = "whole", spec, version } = ctx.args;
          ctx.state.isGone = true;
          await ctx.checkpoint();
          const keysAt = ctx.clock.now();
          const cluster = phases.save({ ...phases.require(name), spec, version, keysAt });
          for (const vnode of vnodes.list(name)) await vnodes.remove(cluster, vnode);
          await saves.unpack(cluster, await deps.places.file(archive), identity, workOf(ctx));
        },
        undo: async (ctx) => {
          const { before } = ctx.state;
          // Where it is gone the restored one runs already, and stays.
          if (before === undefined || !saves.isKept(ctx.args.name, BEFORE)) {
            ctx.state.isGone = false;
            return;
          }
          const { spec, version } = before;
          const keysAt = ctx.clock.now();
          const cluster = phases.save({ ...phases.require(ctx.args.name), spec, version, keysAt });
          await saves.bringBack(cluster, BEFORE, workOf(ctx));
          ctx.state.isGone = false;
          await ctx.checkpoint();
          ctx.log("store and keys are what they were");
        },
      },
      {
        name: "start",
        weight: 6,
        run: start,
        undo: (ctx) => stop(ctx.args.name),
      },
      {
        name: "forget",
        weight: 0.1,
        run: (ctx) => {
          saves.drop(ctx.args.name, BEFORE);
          ctx.log(`virtual cluster ${ctx.args.name} is what its backup was`);
        },
      },
    ],
  };
}

function kept(name: string): AppError {
  return new AppError(
    "object.conflict",
    `store and keys that virtual cluster ${name} had before a restore are not back: they are kept on its node, in clusters/${name}/saves/${BEFORE}; copy them away before it is restored again`,
  );
}

function workOf({ signal, log }: Pick<StepContext, "signal" | "log">): SaveWork {
  return { signal, say: log };
}

function requireStill(cluster: KeptCluster): KeptCluster {
  if (["Running", "Stopped", "Stopping"].includes(cluster.phase)) return cluster;
  throw new AppError(
    "object.conflict",
    `virtual cluster '${cluster.name}' is ${cluster.phase}: a backup can take its place while it is Running or Stopped; else delete it and restore it as a new one`,
  );
}
