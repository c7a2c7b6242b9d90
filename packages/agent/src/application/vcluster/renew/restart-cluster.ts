// Control plane and workers read keys when they start: who has new ones is started again. Whoever connects waits meanwhile, and
// pods run on.
import { AppError } from "@gpve/contracts/errors.ts";
import type { VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import type { ClusterPhases } from "../cluster-phases.ts";
import type { ClusterWays } from "../power/cluster-ways.ts";
import { type HealthPorts, requireHealthy } from "../upgrade/health-gate.ts";
import { upgradeWorker } from "../upgrade/upgrade-worker.ts";

export interface RestartDeps extends HealthPorts {
  readonly phases: ClusterPhases;
  readonly ways: Pick<ClusterWays, "hold" | "unhold" | "tell">;
  readonly vnodes: Pick<VnodeHost, "list" | "restartPart" | "lastWords">;
}

type Ctx = Pick<StepContext, "clock" | "signal" | "log" | "warn"> & {
  readonly args: { readonly name: string };
};

const READY_MS = 180_000;

/** Throws where it does not run; `then` says what is so instead. */
export function requireAwake({ phases }: Pick<RestartDeps, "phases">, name: string, then: string): void {
  const { phase, asleep } = phases.require(name);
  if (phase !== "Running" || asleep !== undefined)
    throw new AppError("object.conflict", `virtual cluster '${name}' does not run now: ${then}`);
}

export async function restartControlPlane(deps: RestartDeps, ctx: Ctx): Promise<void> {
  const { host, phases, ways } = deps;
  const { name } = ctx.args;
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
}

export async function restartWorkers(deps: RestartDeps, ctx: Ctx): Promise<void> {
  const cluster = deps.phases.require(ctx.args.name);
  const { restartPart, lastWords } = deps.vnodes;
  // Also of machines: they read their settings anew.
  const vnodes: Parameters<typeof upgradeWorker>[0]["vnodes"] = {
    exchange: async (...of) => {
      for (const part of ["kubelet", "kube-proxy"] as const)
        await restartPart.call(deps.vnodes, of[0], of[1], part);
    },
    lastWords: lastWords.bind(deps.vnodes),
  };
  for (const vnode of deps.vnodes.list(cluster.name))
    await upgradeWorker({ ...deps, vnodes }, cluster, vnode, { ctx, drain: false, readyMs: READY_MS });
}
