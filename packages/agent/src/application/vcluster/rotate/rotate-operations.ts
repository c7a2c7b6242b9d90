// A cluster's authority is exchanged, step by step; a step that a crash ended is done again.
//
//   rotate: authority ──> control plane ──> workers ──> pods     both are trusted, the new one signs
//   drop:   forget ─────> control plane ──> workers ──> leavings the new one alone
import {
  type ClusterAuthorities,
  requireDroppable,
  requireNoRotation,
  requireRotatable,
} from "@gpve/domain/vcluster/rotate/authorities.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import {
  requireAwake,
  type RestartDeps,
  restartControlPlane,
  restartWorkers,
} from "../renew/restart-cluster.ts";
import { clearFormerTrust, untilPodsTrust } from "./pod-trust.ts";

export const ROTATE_CA = "vcrotateca";
export const DROP_CA = "vcdropca";

export interface RotateArgs {
  readonly name: string;
  /** How long the one before is trusted. */
  readonly graceMs: number;
}

export interface DropArgs {
  readonly name: string;
}

interface State {
  /** The old one has been let go: there is no way back, and nothing to ask. */
  isDropped?: boolean;
}

export interface RotateDeps extends RestartDeps {
  readonly authorities: ClusterAuthorities;
}

const AWAKE = "wake or start it, and try again";

/** Who has copies of its keys is to have these. */
export function keysChanged({ phases }: Pick<RotateDeps, "phases">, name: string, now: number): void {
  phases.save({ ...phases.require(name), keysAt: now });
}

export function rotateOperations(deps: RotateDeps): {
  readonly rotate: OperationDefinition<RotateArgs, State>;
  readonly drop: OperationDefinition<DropArgs, State>;
} {
  const { authorities, phases } = deps;
  return {
    rotate: {
      type: ROTATE_CA,
      onCrash: "resume",
      initialState: () => ({}),
      steps: [
        {
          name: "authority",
          weight: 0.1,
          run: async (ctx) => {
            const { name, graceMs } = ctx.args;
            requireRotatable(phases.require(name));
            requireAwake(deps, name, AWAKE);
            const before = authorities.rotation(name);
            requireNoRotation(name, before);
            if (before === undefined) await authorities.begin(name, ctx.clock.now() + graceMs);
            keysChanged(deps, name, ctx.clock.now());
            ctx.log(
              before === undefined
                ? "it has a new authority, beside the old one"
                : "what was begun is gone on with",
            );
          },
        },
        {
          name: "control plane",
          weight: 2,
          run: async (ctx) => {
            await restartControlPlane(deps, ctx);
            ctx.log("the control plane trusts both, and what it signs is of the new one");
          },
        },
        { name: "workers", weight: 2, run: (ctx) => restartWorkers(deps, ctx) },
        {
          name: "pods",
          weight: 1,
          run: async (ctx) => {
            const { name } = ctx.args;
            const hasWorkers = deps.vnodes.list(name).length > 0;
            await untilPodsTrust(deps.api, phases.require(name), {
              pem: authorities.trust(name),
              hasWorkers,
              ctx,
            });
            authorities.settle(name);
            keysChanged(deps, name, ctx.clock.now());
            const { until = 0 } = authorities.rotation(name) ?? {};
            ctx.log(
              `kubeconfigs of before are good until the old authority is dropped: at ${new Date(until).toISOString()}, or by gpvectl vc rotate-ca ${name} --drop-old --yes`,
            );
          },
        },
      ],
    },
    drop: {
      type: DROP_CA,
      onCrash: "resume",
      initialState: () => ({}),
      steps: [
        {
          name: "forget",
          weight: 0.1,
          run: async (ctx) => {
            const { name } = ctx.args;
            if (ctx.state.isDropped !== true) {
              requireAwake(deps, name, AWAKE);
              requireDroppable(name, authorities.rotation(name));
              ctx.state.isDropped = true;
              await ctx.checkpoint();
            }
            authorities.drop(name);
            keysChanged(deps, name, ctx.clock.now());
            ctx.log("the old authority is gone: kubeconfigs that it signed are good no more");
          },
        },
        { name: "control plane", weight: 2, run: (ctx) => restartControlPlane(deps, ctx) },
        { name: "workers", weight: 2, run: (ctx) => restartWorkers(deps, ctx) },
        {
          name: "leavings",
          weight: 0.5,
          run: async (ctx) => {
            await clearFormerTrust(deps.api, phases.require(ctx.args.name), ctx.signal);
            ctx.log("it knows its new authority alone");
          },
        },
      ],
    },
  };
}
