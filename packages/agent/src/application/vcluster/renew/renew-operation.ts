// New certificates before the old ones end. A control plane reads its own when it starts, so it is started again while whoever
// connects waits; then worker after worker gets a new kubelet and kube-proxy. Pods run on.
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { requireAwake, type RestartDeps, restartControlPlane, restartWorkers } from "./restart-cluster.ts";

export const RENEW_CLUSTER = "vcrenew";

export interface RenewArgs {
  readonly name: string;
}

type State = Record<string, never>;

export function renewOperation(deps: RestartDeps): OperationDefinition<RenewArgs, State> {
  return {
    type: RENEW_CLUSTER,
    onCrash: "resume",
    steps: [
      {
        name: "control plane",
        weight: 2,
        run: async (ctx) => {
          requireAwake(deps, ctx.args.name, "it gets new certificates when it is started");
          await restartControlPlane(deps, ctx);
          ctx.log("the control plane has new certificates");
        },
      },
      { name: "workers", weight: 2, run: (ctx) => restartWorkers(deps, ctx) },
    ],
  };
}
