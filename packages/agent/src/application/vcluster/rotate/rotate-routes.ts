// The exchange of a cluster's authority, as servers ask for it.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { ClusterHost } from "@gpve/domain/vcluster/ports.ts";
import {
  type ClusterAuthorities,
  graceMs,
  requireDroppable,
  requireNoRotation,
  requireRotatable,
} from "@gpve/domain/vcluster/rotate/authorities.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "../../agent.ts";
import { DROP_CA, ROTATE_CA } from "./rotate-operations.ts";

export interface RotateRouteDeps {
  readonly host: Pick<ClusterHost, "get">;
  readonly authorities: Pick<ClusterAuthorities, "rotation">;
  readonly engine: Pick<OperationEngine, "submit">;
  /** Resolves when it is awake. */
  readonly awake: (name: string) => Promise<void>;
}

export function rotateRoutes(
  deps: RotateRouteDeps,
): OwnHandlers<"POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca"> {
  const { host, authorities, engine } = deps;
  return {
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca": async (asked, ctx) => {
      const { vcluster, tenant, graceHours, dropOld = false, requestId } = asked;
      const cluster = host.get(vcluster);
      // Permission was judged on the tenant that the server named: another's cluster is not there.
      if (cluster?.tenant !== tenant)
        throw new AppError("object.not_found", `there is no virtual cluster '${vcluster}' on this node`);
      const { name, phase } = cluster;
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
      const { upid } = await engine.submit({
        type: dropOld ? DROP_CA : ROTATE_CA,
        resources: [`vcluster/${name}`],
        args: dropOld ? { name } : { name, graceMs: graceMs(graceHours) },
        subject: name,
        actor: ctx.actor?.authid ?? "",
        requestId,
        ...given({ traceparent: ctx.traceparent }),
      });
      return upid;
    },
  };
}
