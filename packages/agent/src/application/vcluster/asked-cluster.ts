// What every request about a virtual cluster of this node begins and ends with: whose it is, and the work that is queued for it.
import { AppError } from "@gpve/contracts/errors.ts";
import { askedBy, type RequestContext } from "@gpve/domain/request/context.ts";
import type { KeptCluster, KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

export interface NamedCluster {
  readonly vcluster: string;
  readonly tenant: string;
}

/** Permission was judged on the tenant that the server named: another's cluster is not there. */
export function ownCluster(host: KeptClusters, { vcluster, tenant }: NamedCluster): KeptCluster {
  const kept = host.get(vcluster);
  if (kept?.tenant === tenant) return kept;
  throw new AppError("object.not_found", `there is no virtual cluster '${vcluster}' on this node`);
}

/** One work at a time for each cluster; answers with the task's id. */
export function clusterWork<Args extends { readonly name: string }>(
  engine: Pick<OperationEngine, "submit">,
): (type: string, args: Args, requestId: string, ctx: RequestContext) => Promise<string> {
  return async (type, args, requestId, ctx) => {
    const { upid } = await engine.submit({
      type,
      resources: [`vcluster/${args.name}`],
      args,
      subject: args.name,
      ...askedBy(ctx),
      requestId,
    });
    return upid;
  };
}
