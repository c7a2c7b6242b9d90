// The authority of a cluster on several nodes is exchanged by a server, which has each node do its part; a part that a crash
// ended is done again.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterAuthority, KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import {
  requireDroppable,
  requireNoRotation,
  type RotationPart,
} from "@gpve/domain/vcluster/rotate/authorities.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OwnHandlers } from "../../agent.ts";
import { ownCluster } from "../asked-cluster.ts";
import { requireAwake, restartControlPlane, restartWorkers } from "../renew/restart-cluster.ts";
import { clearFormerTrust, untilPodsTrust } from "./pod-trust.ts";
import { keysChanged, type RotateDeps } from "./rotate-operations.ts";

export const ROTATE_PART = "vcrotatepart";

export interface RotatePartArgs {
  readonly name: string;
  readonly part: RotationPart;
  /** How long the one before is trusted. */
  readonly graceMs: number;
}

type Ctx = StepContext<RotatePartArgs>;

export function rotatePart(deps: RotateDeps): OperationDefinition<RotatePartArgs> {
  const { authorities, phases } = deps;
  const parts: Readonly<Record<RotationPart, (ctx: Ctx) => Promise<void>>> = {
    begin: async (ctx) => {
      const { name, graceMs } = ctx.args;
      const before = authorities.rotation(name);
      requireNoRotation(name, before);
      if (before === undefined) await authorities.begin(name, ctx.clock.now() + graceMs);
      keysChanged(deps, name, ctx.clock.now());
    },
    "control plane": (ctx) => restartControlPlane(deps, ctx),
    workers: (ctx) => restartWorkers(deps, ctx),
    pods: async (ctx) => {
      const cluster = phases.require(ctx.args.name);
      const hasWorkers = cluster.spec.workers > 0;
      await untilPodsTrust(deps.api, cluster, { pem: authorities.trust(cluster.name), hasWorkers, ctx });
    },
    settle: async (ctx) => {
      authorities.settle(ctx.args.name);
      keysChanged(deps, ctx.args.name, ctx.clock.now());
    },
    turn: async (ctx) => {
      requireDroppable(ctx.args.name, authorities.rotation(ctx.args.name));
      authorities.turn(ctx.args.name);
      keysChanged(deps, ctx.args.name, ctx.clock.now());
    },
    forget: async (ctx) => {
      authorities.drop(ctx.args.name);
      keysChanged(deps, ctx.args.name, ctx.clock.now());
    },
    leavings: (ctx) => clearFormerTrust(deps.api, phases.require(ctx.args.name), ctx.signal),
  };
  return {
    type: ROTATE_PART,
    onCrash: "resume",
    steps: [
      {
        name: "part",
        run: async (ctx) => {
          requireAwake(deps, ctx.args.name, "wake or start it, and try again");
          await parts[ctx.args.part](ctx);
          ctx.log(`${ctx.args.part}: done`);
        },
      },
    ],
  };
}

type TakeRoute =
  | "PUT /gpve/nodes/{node}/vclusters/{vcluster}/authority"
  | "GET /gpve/nodes/{node}/vclusters/{vcluster}/rotation";

export function takeAuthorityRoutes({
  host,
  authorities,
}: {
  readonly host: KeptClusters & Pick<ClusterAuthority, "takeAuthority">;
  readonly authorities: Pick<RotateDeps["authorities"], "rotation">;
}): OwnHandlers<TakeRoute> {
  return {
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/authority": (asked) => {
      const { name, overlay } = ownCluster(host, asked);
      if (overlay === undefined)
        throw new AppError("object.conflict", `all of virtual cluster '${name}' is on this node`);
      // As files, at once: what operations are told lies in the journal.
      host.takeAuthority(name, asked.secrets);
      return null;
    },
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/rotation": (asked) => {
      const { name } = ownCluster(host, asked);
      return { ...authorities.rotation(name) };
    },
  };
}
