// Standbys of other nodes' clusters, as operations: one begins to follow, and one goes on as a cluster of this node.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { ClusterOverlay } from "@gpve/domain/vcluster/overlay.ts";
import type {
  ClusterAuthority,
  ClusterDoors,
  ClusterGround,
  ClusterRuns,
  KeptCluster,
  KeptClusters,
} from "@gpve/domain/vcluster/ports.ts";
import type { StandbyHost } from "@gpve/domain/vcluster/standby/ports.ts";
import type { VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { Workers } from "../../vnode/workers.ts";
import type { ClusterPhases } from "../cluster-phases.ts";

export const FOLLOW_CLUSTER = "vcfollow";
export const PROMOTE_CLUSTER = "vcpromote";

export interface StandbyArgs {
  readonly name: string;
  /** Of one that goes on with workers on several nodes. */
  readonly place?: { readonly network: number; readonly overlay: ClusterOverlay };
}

export interface StandbyOperationDeps {
  readonly host: KeptClusters & ClusterAuthority & ClusterGround & ClusterRuns & ClusterDoors;
  readonly phases: ClusterPhases;
  readonly standbys: StandbyHost;
  readonly workers: Pick<Workers, "bring" | "equip">;
  readonly vnodes: Pick<VnodeHost, "list" | "route">;
  readonly ensureComponent: (name: string, version: string, ctx: StepContext) => Promise<void>;
}

type State = Record<string, never>;
type Ctx = StepContext<StandbyArgs, State>;

export function standbyOperations(
  deps: StandbyOperationDeps,
): readonly OperationDefinition<StandbyArgs, State>[] {
  const { host, phases, standbys } = deps;
  return [
    {
      type: FOLLOW_CLUSTER,
      onCrash: "resume",
      steps: [
        {
          name: "follow",
          run: async (ctx: Ctx) => {
            const standby = standbys.get(ctx.args.name);
            if (standby === undefined) return;
            // It follows with it.
            const { etcdVersion } = standby;
            if (etcdVersion !== undefined) await deps.ensureComponent("etcd", etcdVersion, ctx);
            await standbys.follow(standby.name);
            ctx.log(`the store of virtual cluster ${standby.name} is followed here`);
            // What it is started with when its node is lost: there may be nobody to bring it then.
            await deps.ensureComponent("kubernetes", standby.version, ctx);
            await deps.workers.equip(standby.spec, ctx);
          },
        },
      ],
    },
    {
      type: PROMOTE_CLUSTER,
      onCrash: "resume",
      steps: [
        {
          name: "take over",
          weight: 1,
          run: async (ctx: Ctx) => {
            const { name, place } = ctx.args;
            const standby = standbys.get(name);
            if (standby === undefined) {
              // Asked again when it has long been done.
              if (host.get(name) !== undefined) return;
              throw new AppError(
                "object.not_found",
                `virtual cluster '${name}' has no standby on this node: nothing is here to go on from`,
              );
            }
            const { called, tenant, spec, version, etcdVersion, secrets } = standby;
            await deps.ensureComponent("kubernetes", version, ctx);
            // Whoever still sends is confirmed nothing any more: from here on it is this node's.
            await standbys.unfollow(name);
            standbys.adopt(name);
            host.takeAuthority(name, secrets);
            phases.save({
              ...host.get(name),
              ...given({ called, etcdVersion }),
              ...place,
              name,
              tenant,
              spec,
              version,
              phase: "Migrating",
              isWanted: true,
              isSwitching: true,
            });
            await standbys.remove(name);
            ctx.log("its store and keys are this node's");
          },
        },
        {
          name: "start",
          weight: 5,
          run: async (ctx: Ctx) => {
            const { name } = ctx.args;
            if (phases.require(name).phase !== "Migrating") return;
            const { network } = await host.provision(phases.require(name));
            phases.save({ ...phases.require(name), network });
            await host.start(phases.require(name), ctx.signal, ctx.log);
            await host.furnish(phases.require(name), ctx.signal);
            if (ctx.args.place !== undefined) await meetWorkers(deps, phases.require(name));
            const { isSwitching: _done, ...settled } = phases.require(name);
            phases.save(settled);
            phases.go(name, "MigrateCompleted");
            ctx.log(`virtual cluster ${name} answers at ${host.endpoint(phases.require(name))}`);
          },
        },
        {
          name: "workers",
          weight: 3,
          run: async (ctx: Ctx) => {
            // Its API answers, which is what it was taken over for: workers that do not come are told of, and can be scaled.
            await deps.workers
              .bring(phases.require(ctx.args.name), ctx)
              .catch((err: unknown) => ctx.warn(`its workers are not all there: ${messageOf(err)}`));
          },
        },
      ],
    },
  ];
}

/** Those that are here already knew its control plane elsewhere, and it knows no way to any of them. */
async function meetWorkers({ host, vnodes }: StandbyOperationDeps, cluster: KeptCluster): Promise<void> {
  await vnodes.route(cluster);
  await host.lookAgain(
    cluster,
    vnodes.list(cluster.name).map(({ slot }) => slot),
  );
}
