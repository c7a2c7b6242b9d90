// New certificates before the old ones end. A control plane reads its own when it starts, so it is started again while whoever
// connects waits; then worker after worker gets a new kubelet and kube-proxy. Pods run on.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterHost } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { ClusterPhases } from "../cluster-phases.ts";
import type { ClusterWays } from "../power/cluster-ways.ts";
import { requireHealthy } from "../upgrade/health-gate.ts";
import { upgradeWorker } from "../upgrade/upgrade-worker.ts";

export const RENEW_CLUSTER = "vcrenew";

export interface RenewArgs {
  readonly name: string;
}

export interface RenewDeps {
  readonly host: ClusterHost;
  readonly phases: ClusterPhases;
  readonly ways: Pick<ClusterWays, "hold" | "unhold" | "tell">;
  readonly vnodes: Pick<VnodeHost, "list" | "restartPart" | "lastWords">;
  readonly api: ClusterApi;
}

type State = Record<string, never>;

const READY_MS = 180_000;

export function renewOperation(deps: RenewDeps): OperationDefinition<RenewArgs, State> {
  const { host, phases, ways, vnodes } = deps;
  return {
    type: RENEW_CLUSTER,
    onCrash: "resume",
    steps: [
      {
        name: "control plane",
        weight: 2,
        run: async (ctx) => {
          const { name } = ctx.args;
          const { phase, asleep } = phases.require(name);
          if (phase !== "Running" || asleep !== undefined)
            throw new AppError(
              "object.conflict",
              `virtual cluster '${name}' does not run now: it gets new certificates when it is started`,
            );
          await ways.hold(name);
          try {
            phases.save({ ...phases.require(name), isSwitching: true });
            await host.stop(phases.require(name));
            await host.start(phases.require(name), ctx.signal, ctx.log);
            await requireHealthy(deps, phases.require(name), ctx, 0);
            const { isSwitching: _over, ...settled } = phases.require(name);
            phases.save(settled);
          } catch (err) {
            // Whoever connects next has it tried again.
            await host.stop(phases.require(name));
            const { isSwitching: _over, ...settled } = phases.require(name);
            phases.save({ ...settled, asleep: "cold" });
            throw err;
          } finally {
            ways.unhold(name);
            await ways.tell();
          }
          ctx.log("the control plane has new certificates");
        },
      },
      {
        name: "workers",
        weight: 2,
        run: async (ctx) => {
          const cluster = phases.require(ctx.args.name);
          for (const vnode of vnodes.list(cluster.name))
            await upgradeWorker(deps, cluster, vnode, { ctx, drain: false, readyMs: READY_MS });
        },
      },
    ],
  };
}
