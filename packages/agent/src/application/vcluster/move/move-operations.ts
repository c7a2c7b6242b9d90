// The node's part of a move of a control plane. A server leads: it notes the move, tells each end what to do next, and
// writes down whose the cluster is in between. Nobody starts one by himself that is Migrating.
//
//   there: arrive ─────────────> take over          (or: turn away)
//   here:            depart ─────────────> let go   (or: stay)
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { partsOf } from "@gpve/domain/vcluster/etcd.ts";
import type {
  ClusterArrival,
  ClusterLuggage,
  ClusterPeers,
} from "@gpve/domain/vcluster/move/cluster-moves.ts";
import { type ClusterOverlay, isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type {
  ClusterDoors,
  ClusterGround,
  ClusterRuns,
  KeptCluster,
  KeptClusters,
} from "@gpve/domain/vcluster/ports.ts";
import type { VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { Workers } from "../../vnode/workers.ts";
import type { ClusterPhases } from "../cluster-phases.ts";

export const ARRIVE_CLUSTER = "vcarrive";
export const DEPART_CLUSTER = "vcdepart";
export const STAY_CLUSTER = "vcstay";
export const TAKE_OVER_CLUSTER = "vctakeover";
export const TURN_CLUSTER_AWAY = "vcturnaway";
export const LET_CLUSTER_GO = "vcletgo";
export const JOIN_CLUSTER = "vcjoin";
export const WORKER_LEAVE = "vcworkerleave";

export interface ClusterMoveArgs {
  readonly name: string;
  readonly moveId: string;
}

export interface ClusterArriveArgs extends ClusterMoveArgs {
  readonly cluster: KeptCluster;
}

/** What it is here from now on; absent: nothing. */
export interface LetGoArgs extends ClusterMoveArgs {
  readonly overlay?: ClusterOverlay;
}

export interface JoinArgs {
  readonly name: string;
  /** Absent: all of it is here. */
  readonly overlay?: ClusterOverlay;
  /** What is missing of its workers here is made. */
  readonly bring?: boolean;
}

export interface WorkerLeaveArgs {
  readonly name: string;
  readonly worker: string;
}

export interface ClusterMoveDeps {
  readonly host: KeptClusters & ClusterGround & ClusterRuns & ClusterDoors;
  readonly phases: ClusterPhases;
  readonly vnodes: Pick<VnodeHost, "list" | "route" | "volumes">;
  readonly workers: Pick<Workers, "bring" | "drop">;
  readonly luggage: ClusterLuggage;
  readonly peers: ClusterPeers;
  /** Resolves when the note of it is here; undefined = no server has allowed it. */
  readonly findMove: (moveId: string) => Promise<GuestMove | undefined>;
  readonly ensureComponent: (name: string, version: string, ctx: StepContext) => Promise<void>;
  /** It leaves this node: who knows it by this node's address is passed on from now on. */
  readonly noteLeft: (cluster: KeptCluster) => void;
}

type State = Record<string, never>;
type Operation<A> = OperationDefinition<A, State>;

export function clusterMoveOperations(deps: ClusterMoveDeps): {
  readonly arrive: Operation<ClusterArriveArgs>;
  readonly letGo: Operation<LetGoArgs>;
  readonly join: Operation<JoinArgs>;
  readonly workerLeave: Operation<WorkerLeaveArgs>;
  readonly others: readonly Operation<ClusterMoveArgs>[];
} {
  const { host, phases, luggage } = deps;
  /** It runs here, as before or for the first time. */
  const settle = async (name: string, ctx: StepContext<{ readonly name: string }, State>): Promise<void> => {
    const cluster = phases.require(name);
    await host.start(cluster, ctx.signal, ctx.log);
    await host.furnish(cluster, ctx.signal);
    if (deps.vnodes.list(name).length > 0 || cluster.overlay !== undefined) await deps.vnodes.route(cluster);
    const { isSwitching: _done, ...settled } = phases.require(name);
    phases.save(settled);
    phases.go(name, "MigrateCompleted");
    ctx.log(`virtual cluster ${name} answers at ${host.endpoint(phases.require(name))}`);
  };
  return {
    arrive: single(ARRIVE_CLUSTER, async (ctx) => {
      const { cluster, moveId } = ctx.args;
      await deps.ensureComponent("kubernetes", cluster.version, ctx);
      if (partsOf(cluster).includes("etcd"))
        await deps.ensureComponent("etcd", cluster.etcdVersion ?? "", ctx);
      luggage.announce({ moveId, cluster, ...given({ before: host.get(cluster.name) }) });
      ctx.log(`virtual cluster ${cluster.name} is expected`);
    }),
    letGo: single(LET_CLUSTER_GO, async (ctx) => {
      const { name, overlay } = ctx.args;
      const cluster = host.get(name);
      if (cluster === undefined || isSettledBranch(cluster)) return;
      requireMigrating(cluster);
      await host.stop(cluster);
      if (overlay === undefined) deps.noteLeft(cluster);
      await host.letGo(cluster, overlay === undefined ? "all" : "control plane");
      if (overlay === undefined) {
        ctx.log("nothing of it is left on this node");
        return;
      }
      await become(deps, name, overlay);
      phases.go(name, "MigrateCompleted");
      ctx.log("its workers stay on this node");
    }),
    join: single(JOIN_CLUSTER, async (ctx) => {
      const { name, overlay, bring } = ctx.args;
      await become(deps, name, overlay);
      if (bring === true) await deps.workers.bring(phases.require(name), ctx);
      else if (deps.vnodes.list(name).length > 0) await deps.vnodes.route(phases.require(name));
    }),
    workerLeave: single(WORKER_LEAVE, async (ctx) => {
      const { name, worker } = ctx.args;
      const found = deps.vnodes.list(name).find((each) => each.name === worker);
      if (found === undefined) return;
      const has = deps.vnodes.volumes(name, found);
      if (has.length > 0)
        throw new AppError(
          "object.conflict",
          `${worker} has ${has.length} persistent volumes, which are folders of this node: delete their claims first (${has.slice(0, 3).join(", ")})`,
        );
      await deps.workers.drop(phases.require(name), found, ctx);
    }),
    others: [
      {
        type: DEPART_CLUSTER,
        onCrash: "undo",
        steps: [
          {
            name: "stop",
            run: async ({ args: { name }, log }) => {
              if (phases.require(name).phase !== "Migrating") phases.go(name, "MigrateRequested");
              const cluster = phases.save({ ...phases.require(name), isSwitching: true });
              await host.stop(cluster);
              // Its address is to be another node's.
              await host.unplug(cluster);
              log("its control plane has ended here");
            },
            undo: async (ctx) => {
              const { name } = ctx.args;
              if (phases.require(name).phase === "Migrating") await settle(name, ctx);
            },
          },
          {
            name: "send",
            weight: 3,
            run: (ctx) => send(deps, ctx),
          },
        ],
      },
      single(STAY_CLUSTER, async (ctx) => {
        const { name } = ctx.args;
        if (phases.require(name).phase !== "Migrating") return;
        try {
          await settle(name, ctx);
        } catch (err) {
          phases.fail(name, err);
          throw err;
        }
      }),
      single(TAKE_OVER_CLUSTER, async (ctx) => {
        const { name, moveId } = ctx.args;
        const before = host.get(name);
        const arrival = luggage.arrival(name);
        if (arrival?.moveId !== moveId || !luggage.isWhole(name)) {
          // Asked again when it has long been done.
          if (before?.phase === "Running" && !isBranch(before)) return;
          throw new AppError("object.conflict", `virtual cluster '${name}' has not come to this node`);
        }
        if (before !== undefined && isBranch(before) && before.phase === "Running")
          phases.go(name, "MigrateRequested");
        // What counts is what the move is about: workers that are here know the rest.
        phases.save({ ...before, ...arrival.cluster, phase: "Migrating", isSwitching: true });
        luggage.unpack(arrival.cluster);
        const { network } = await host.provision(phases.require(name));
        phases.save({ ...phases.require(name), network });
        ctx.log("store and keys are where they belong");
        await settle(name, ctx);
        luggage.forget(name);
      }),
      single(TURN_CLUSTER_AWAY, async ({ args: { name, moveId }, log }) => {
        const arrival = luggage.arrival(name);
        if (arrival?.moveId !== moveId) return;
        await turnAway(deps, arrival);
        luggage.forget(name);
        log("nothing of what has come is left on this node");
      }),
    ],
  };
}

function single<A>(type: string, run: (ctx: StepContext<A, State>) => Promise<void>): Operation<A> {
  return { type, onCrash: "resume", steps: [{ name: type.replace(/^vc/, ""), run }] };
}

async function send(deps: ClusterMoveDeps, ctx: StepContext<ClusterMoveArgs, State>): Promise<void> {
  const { name, moveId } = ctx.args;
  const move = await deps.findMove(moveId);
  if (move?.vcluster !== name)
    throw new AppError("object.conflict", `no server has allowed virtual cluster '${name}' to move`);
  const files = await deps.luggage.pack(deps.phases.require(name), ctx.signal);
  const line = await deps.peers.clusterLine(move, ctx.signal);
  try {
    for (const file of files) await line.send(file);
    await line.finish();
  } finally {
    line.close();
  }
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  ctx.log(
    `${files.length} files (${(bytes / 2 ** 20).toFixed(1)} MiB) of keys and store are on node ${move.to.node}`,
  );
}

/** It has workers of it, or may get some, and another node has the control plane. */
async function become(
  deps: ClusterMoveDeps,
  name: string,
  overlay: ClusterOverlay | undefined,
): Promise<void> {
  const { host, phases, vnodes } = deps;
  const { isSwitching: _done, overlay: _before, ...cluster } = phases.require(name);
  const next = phases.save({ ...cluster, ...given({ overlay }) });
  await host.provision(next);
  await host.lookAgain(
    next,
    vnodes.list(name).map(({ slot }) => slot),
  );
}

async function turnAway({ host, phases }: ClusterMoveDeps, arrival: ClusterArrival): Promise<void> {
  const { cluster, before } = arrival;
  const now = host.get(cluster.name);
  // It never came so far as to be one of ours.
  if (now === undefined || now.phase !== "Migrating") return;
  await host.stop(now);
  await host.unplug(now);
  await host.letGo(now, before === undefined ? "all" : "control plane");
  if (before === undefined) return;
  phases.save({ ...before, phase: "Migrating" });
  phases.go(before.name, "MigrateCompleted");
  await host.provision(phases.require(before.name));
}

function isSettledBranch(cluster: KeptCluster): boolean {
  return isBranch(cluster) && cluster.phase !== "Migrating";
}

function requireMigrating({ name, phase }: KeptCluster): void {
  if (phase === "Migrating") return;
  throw new AppError(
    "object.conflict",
    `virtual cluster '${name}' is ${phase} here: it has not left this node`,
  );
}
