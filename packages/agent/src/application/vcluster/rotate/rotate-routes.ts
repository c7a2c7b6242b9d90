// The exchange of a cluster's authority, as servers ask for it.
import { AppError } from "@gpve/contracts/errors.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import {
  type ClusterAuthorities,
  graceMs,
  requireDroppable,
  requireNoRotation,
  requireRotatable,
} from "@gpve/domain/vcluster/rotate/authorities.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "../../agent.ts";
import { clusterWork, ownCluster } from "../asked-cluster.ts";
import { ROTATE_PART, type RotatePartArgs } from "./rotate-part.ts";
import { DROP_CA, type DropArgs, ROTATE_CA, type RotateArgs } from "./rotate-operations.ts";

export interface RotateRouteDeps {
  readonly host: KeptClusters;
  readonly authorities: Pick<ClusterAuthorities, "rotation">;
  readonly engine: Pick<OperationEngine, "submit">;
  /** Resolves when it is awake. */
  readonly awake: (name: string) => Promise<void>;
}

export function rotateRoutes(
  deps: RotateRouteDeps,
): OwnHandlers<"POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca"> {
  const { host, authorities } = deps;
  const submit = clusterWork<RotateArgs | DropArgs | RotatePartArgs>(deps.engine);
  return {
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca": async (asked, ctx) => {
      const { vcluster, tenant, graceHours, dropOld = false, part, requestId } = asked;
      const cluster = ownCluster(host, { vcluster, tenant });
      const { name, phase } = cluster;
      if (part !== undefined && cluster.overlay !== undefined) {
        if (!isBranch(cluster)) await deps.awake(name);
        return submit(ROTATE_PART, { name, part, graceMs: graceMs(graceHours) }, requestId, ctx);
      }
      // Refused before a task begins.
      requireRotatable(cluster);
      const rotation = authorities.rotation(name);
      if (dropOld) requireDroppable(name, rotation);
      else requireNoRotation(name, rotation);
      if (phase !== "Running")
        throw new AppError(
          "object.conflict",
          `virtual cluster '${name}' is ${phase}: its authority can be exchanged while it is Running`,
        );
      await deps.awake(name);
      return dropOld
        ? submit(DROP_CA, { name }, requestId, ctx)
        : submit(ROTATE_CA, { name, graceMs: graceMs(graceHours) }, requestId, ctx);
    },
  };
}
