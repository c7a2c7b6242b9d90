// What the scheduler says of each node, for a cluster that has rules of its own.
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { guestLabels, type PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { totalSize, totalWorkers } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { Placer } from "../scheduler/placer.ts";
import type { PlaceDeps } from "./place-cluster.ts";

interface NewCluster {
  readonly name: string;
  readonly tenant: string;
  readonly spec: VirtualClusterSpec;
}

/** Who may see nodes is told why: reasons name others' guests, and labels and figures of nodes. */
type Terms = Pick<RequestContext, "signal"> & Partial<Pick<RequestContext, "access">>;

/** Without rules nobody is asked: it goes where the fewest clusters are. */
export async function withOrder<T extends PlaceDeps & { readonly placer: Pick<Placer, "preview"> }>(
  deps: T,
  cluster: NewCluster,
  { signal, access }: Terms,
): Promise<PlaceDeps> {
  if (cluster.spec.rules === undefined) return deps;
  const { verdicts } = await deps.placer.preview(clusterRequest(cluster), signal);
  const places = new Map(verdicts.map(({ node, refusals }, rank) => [node, { rank, refusals }]));
  return {
    ...deps,
    order: {
      rank: (node) => places.get(node)?.rank ?? verdicts.length,
      refusal: (node) => {
        const { refusals = [] } = places.get(node) ?? {};
        if (refusals.length === 0) return undefined;
        const seesNodes = access?.has("/nodes", ["Sys.Audit"]) === true;
        return refusals.map(({ filter, why }) => (seesNodes ? why : `refused by ${filter}`)).join(", ");
      },
    },
  };
}

/** As its shares are counted when it is there; dealt out, each node has a worker at least. */
export function clusterRequest({ name, tenant, spec }: NewCluster): PlacementRequest {
  const isDealt = spec.spread === true || spec.replicas > 1;
  const { cpus, memoryBytes } = isDealt && totalWorkers(spec) > 0 ? spec.workerSize : totalSize(spec);
  return {
    id: `vc/${tenant}/${name}`,
    kind: "vc",
    demand: { cpu: cpus, memory: memoryBytes },
    needs: {},
    labels: guestLabels({ kind: "vc", name, tenant }),
    rules: spec.rules ?? {},
  };
}
