// The life of a virtual cluster as operations. Each step can be done again: after a crash the work goes on where it was.
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { partsOf } from "@gpve/domain/vcluster/etcd.ts";
import { type ClusterOverlay, isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type {
  ClusterDoors,
  ClusterGround,
  ClusterRuns,
  KeptCluster,
  KeptClusters,
} from "@gpve/domain/vcluster/ports.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { withWorkers, workersIn } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { OperationDefinition, Step, StepContext } from "@gpve/kit/operation/definition.ts";
import { Halted } from "@gpve/kit/operation/halt.ts";
import type { Workers } from "../vnode/workers.ts";
import type { ClusterPhases } from "./cluster-phases.ts";
import { ALLOWED, type Allowed, requirePhase } from "./require-phase.ts";

export const CREATE_CLUSTER = "vccreate";
/** As a creation, of a backup. */
export const RESTORE_CLUSTER = "vcrestore";
export const DELETE_CLUSTER = "vcdelete";
export const START_CLUSTER = "vcstart";
export const STOP_CLUSTER = "vcstop";
export const RETRY_CLUSTER = "vcretry";
export const SCALE_CLUSTER = "vcscale";

export interface NewClusterArgs {
  readonly name: string;
  readonly called?: string;
  readonly tenant: string;
  readonly spec: VirtualClusterSpec;
  /** Of Kubernetes, in full. */
  readonly version: string;
  readonly fill?: KeptCluster["fill"];
  /** Where it is on several nodes: its network, and which of them this is. */
  readonly network?: number;
  readonly overlay?: ClusterOverlay;
  readonly isFirst?: true;
}

export interface ClusterArgs {
  readonly name: string;
}

export interface DeleteArgs extends ClusterArgs {
  /** It lives on, on other nodes. */
  readonly keepVolumes?: boolean;
}

export interface ScaleArgs extends ClusterArgs {
  readonly workers: number;
  /** Absent: those of the cluster itself. */
  readonly pool?: string;
}

type State = Record<string, never>;
type ScaleState = {
  /** How many there were. */
  before?: number;
};
type Ctx = StepContext<ClusterArgs, State>;

export interface ClusterOperationDeps {
  readonly host: KeptClusters & ClusterGround & ClusterRuns & ClusterDoors;
  readonly phases: ClusterPhases;
  readonly workers: Pick<Workers, "bring" | "stop" | "remove" | "giveBack" | "keepLeft" | "requireEmpty">;
  /** Makes a backup the content of a cluster that has not been started yet. */
  readonly fill: (
    cluster: KeptCluster,
    from: NonNullable<KeptCluster["fill"]>,
    ctx: StepContext,
  ) => Promise<void>;
  /** Brings a component to this node, where it is not there. */
  readonly ensureComponent: (name: string, version: string, ctx: StepContext) => Promise<void>;
  /** The one that new clusters of this node get. */
  readonly etcdVersion: () => string;
}

export function clusterOperations(deps: ClusterOperationDeps): {
  readonly create: OperationDefinition<NewClusterArgs, State>;
  readonly restore: OperationDefinition<NewClusterArgs, State>;
  readonly scale: OperationDefinition<ScaleArgs, ScaleState>;
  readonly others: readonly OperationDefinition<ClusterArgs, State>[];
} {
  const { host, phases, workers } = deps;
  /** A failure is written down before it is told. */
  const step = (
    name: string,
    weight: number,
    run: (ctx: Ctx) => Promise<void>,
    allowed?: Allowed,
  ): Step<ClusterArgs, State> => ({
    name,
    weight,
    run: async (ctx) => {
      // What it is not for has not failed: it stays what it is.
      if (allowed !== undefined) requirePhase(phases.require(ctx.args.name), allowed);
      try {
        await run(ctx);
      } catch (err) {
        // Cut off by the end of this process, it goes on at the next start.
        if (!(ctx.signal.reason instanceof Halted)) phases.fail(ctx.args.name, err);
        throw err;
      }
    },
  });
  const during = (ctx: Ctx, phase: KeptCluster["phase"]): boolean =>
    phases.require(ctx.args.name).phase === phase;
  /** One that is Stopped and cannot be started is Stopped still, with the reason, and nothing of it runs. */
  const down = async (name: string, message: string, ctx: Ctx): Promise<void> => {
    try {
      await workers.stop(phases.require(name));
      await host.stop(phases.require(name));
      await host.rest(phases.require(name));
    } catch (err) {
      ctx.warn(`what was started of it is left: ${messageOf(err)}`);
    }
    phases.save({ ...phases.require(name), message });
  };
  /** What runs in it has nothing to do with workers that do not come: it goes on with those that it had. */
  const asBefore = async (
    ctx: StepContext,
    cluster: KeptCluster,
    {
      pool,
      before,
      err,
    }: { readonly pool: string | undefined; readonly before: number; readonly err: unknown },
  ): Promise<void> => {
    try {
      const left = await workers.giveBack(cluster, { pool, most: before }, ctx);
      const { name, spec } = phases.require(cluster.name);
      const has = left === 1 ? "1 worker" : `${left} workers`;
      const where = pool === undefined ? "" : ` in pool ${pool}`;
      const message = `it has ${has}${where}${left === before ? " as before" : ""}: more did not come: ${messageOf(err)}`;
      phases.go(name, "ScaleUndone", { spec: withWorkers(spec, pool, left), message });
    } catch (left) {
      ctx.warn(`what was begun of its new workers is left: ${messageOf(left)}`);
    }
  };
  /** Nor with workers that do not go: those are its own still, until it is scaled again. */
  const asLeft = async (
    ctx: StepContext,
    cluster: KeptCluster,
    {
      pool,
      before,
      err,
    }: { readonly pool: string | undefined; readonly before: number; readonly err: unknown },
  ): Promise<void> => {
    const wanted = workersIn(cluster.spec, pool);
    const left = await workers.keepLeft(cluster, { pool, most: before }, ctx);
    const { name, spec } = phases.require(cluster.name);
    const where = pool === undefined ? "" : ` in pool ${pool}`;
    const has = `it has ${left === 1 ? "1 worker" : `${left} workers`}${where}`;
    const message =
      left > wanted
        ? `${has}, not ${wanted} as asked for: ${messageOf(err)}`
        : `${has} as asked for, and not all is well with it: ${messageOf(err)}`;
    phases.go(name, "ScaleUndone", { spec: withWorkers(spec, pool, left), message });
  };
  const bringUp = [
    step("provision", 1, async (ctx) => {
      const { name } = ctx.args;
      if (during(ctx, "Pending")) phases.go(name, "Allocated");
      const { version, etcdVersion = deps.etcdVersion() } = phases.require(name);
      await deps.ensureComponent("kubernetes", version, ctx);
      if (partsOf(phases.require(name)).includes("etcd")) {
        phases.save({ ...phases.require(name), etcdVersion });
        await deps.ensureComponent("etcd", etcdVersion, ctx);
      }
      const { fill, ...kept } = phases.require(name);
      if (fill !== undefined) {
        // An etcd of its own is filled where it will be: it needs a network for that.
        const isEtcd = partsOf(kept).includes("etcd");
        const place = isEtcd ? await host.provision(phases.require(name)) : {};
        const cluster = { ...kept, ...place };
        await deps.fill(cluster, fill, ctx);
        phases.save(cluster);
      }
      const { network } = await host.provision(phases.require(name));
      phases.save({ ...phases.require(name), network });
      ctx.log("keys, certificates and network are there");
    }),
    step("start", 6, async (ctx) => {
      const { name } = ctx.args;
      if (during(ctx, "Provisioning")) phases.go(name, "ControlPlaneStarting", { isWanted: true });
      if (phases.require(name).isNew !== true) await host.start(phases.require(name), ctx.signal, ctx.log);
    }),
    step("furnish", 2, async (ctx) => {
      const { name } = ctx.args;
      if (phases.require(name).isNew === true) return;
      await host.furnish(phases.require(name), ctx.signal);
    }),
    step("workers", 4, async (ctx) => {
      const { name } = ctx.args;
      if (phases.require(name).isNew !== true) await workers.bring(phases.require(name), ctx);
      if (during(ctx, "Initializing")) phases.go(name, "HealthChecked");
      const now = phases.require(name);
      if (now.isNew === true) {
        phases.save({ ...now, asleep: "cold" });
        ctx.log("it is made asleep: it starts for the first time when somebody connects");
      }
      if (!isBranch(now)) ctx.log(`virtual cluster ${name} answers at ${host.endpoint(now)}`);
    }),
  ];
  const adopt: Step<NewClusterArgs, State> = {
    name: "adopt",
    weight: 0.1,
    run: ({ args: { name, called, tenant, spec, version, fill, network, overlay, isFirst } }) => {
      if (host.get(name) !== undefined) return;
      const isNew = spec.sleep?.fromStart;
      const place = given({ called, fill, network, overlay, isFirst, isNew });
      phases.save({ name, tenant, spec, version, phase: "Pending", isWanted: false, ...place });
    },
  };
  const comeUp = [adopt, ...(bringUp as unknown as Step<NewClusterArgs, State>[])];
  return {
    create: { type: CREATE_CLUSTER, onCrash: "resume", steps: comeUp },
    restore: { type: RESTORE_CLUSTER, onCrash: "resume", steps: comeUp },
    scale: {
      type: SCALE_CLUSTER,
      onCrash: "resume",
      initialState: () => ({}),
      steps: [
        step("scale", 1, async (plain) => {
          const ctx = plain as unknown as StepContext<ScaleArgs, ScaleState>;
          const { name, workers: count, pool } = ctx.args;
          const { spec } = phases.require(name);
          const before = (ctx.state.before ??= workersIn(spec, pool));
          await ctx.checkpoint();
          if (!during(plain, "Scaling")) {
            // It has waited for its turn: what was empty when it was asked for may not be.
            workers.requireEmpty({ name }, withWorkers(spec, pool, count));
            phases.go(name, "ScaleRequested");
          }
          const kept = phases.require(name);
          const now = phases.save({ ...kept, spec: withWorkers(kept.spec, pool, count) });
          try {
            await workers.bring(now, ctx);
          } catch (err) {
            // Who ends it, ends it now.
            if (!ctx.signal.aborted)
              await (count > before ? asBefore : asLeft)(ctx, now, { pool, before, err });
            throw err;
          }
          phases.go(name, "ScaleCompleted");
        }) as unknown as Step<ScaleArgs, ScaleState>,
      ],
    },
    others: [
      {
        type: RETRY_CLUSTER,
        onCrash: "resume",
        steps: [
          step("again", 0.1, async (ctx) => {
            if (during(ctx, "Pending")) return;
            // What a move that nobody leads any more left.
            const { isSwitching: _left, ...kept } = phases.require(ctx.args.name);
            phases.save(kept);
            phases.go(ctx.args.name, "RetryRequested");
          }),
          ...bringUp,
        ],
      },
      {
        type: START_CLUSTER,
        onCrash: "resume",
        steps: [
          step(
            "start",
            1,
            async (ctx) => {
              const kept = phases.require(ctx.args.name);
              try {
                await host.start(kept, ctx.signal, ctx.log);
                if (kept.isNew === true) {
                  await host.furnish(kept, ctx.signal);
                  const { isNew: _done, ...furnished } = phases.require(kept.name);
                  phases.save(furnished);
                }
                await workers.bring(kept, ctx);
              } catch (err) {
                if (kept.phase === "Stopped") await down(kept.name, messageOf(err), ctx);
                throw err;
              }
              if (kept.phase === "Stopped") phases.go(kept.name, "StartRequested", { isWanted: true });
            },
            ALLOWED.start,
          ),
        ],
      },
      {
        type: STOP_CLUSTER,
        onCrash: "resume",
        steps: [
          step(
            "stop",
            1,
            async (ctx) => {
              const { name } = ctx.args;
              if (during(ctx, "Stopped")) return;
              if (!during(ctx, "Stopping")) phases.go(name, "StopRequested", { isWanted: false });
              await workers.stop(phases.require(name));
              await host.stop(phases.require(name));
              await host.rest(phases.require(name));
              phases.go(name, "StopCompleted");
            },
            ALLOWED.stop,
          ),
        ],
      },
      {
        type: DELETE_CLUSTER,
        onCrash: "resume",
        // Nobody waits for what is to go: a build of Kubernetes, or a worker that does not get Ready.
        overtakes: [CREATE_CLUSTER, RESTORE_CLUSTER, START_CLUSTER, RETRY_CLUSTER, SCALE_CLUSTER],
        steps: [
          step("delete", 1, async (ctx) => {
            const { name } = ctx.args;
            if (host.get(name) === undefined) {
              ctx.log("nothing of it is on this node");
              return;
            }
            if (during(ctx, "Pending")) {
              // Its creation was ended before it began.
              phases.go(name, "Allocated");
              phases.fail(name, "it is deleted before it was made");
            }
            if (!during(ctx, "Terminating")) phases.go(name, "DeleteRequested", { isWanted: false });
            const { keepVolumes } = ctx.args as DeleteArgs;
            await workers.remove(phases.require(name), keepVolumes === true ? ctx.warn : undefined);
            await host.stop(phases.require(name));
            await host.remove(name, ctx.warn);
            ctx.log("processes, network, store and keys are gone");
          }),
        ],
      },
    ],
  };
}
