// Why a virtual cluster would go where: by what the scheduler says of every node where it has rules of its own, else by how
// many clusters each node has.
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { explain, type Explanation } from "@gpve/domain/scheduler/explain.ts";
import { clusterShares } from "@gpve/domain/vcluster/cluster-shares.ts";
import {
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import type { ClusterView } from "../scheduler/cluster-view.ts";
import { seenBy } from "../scheduler/explain-placement.ts";
import type { Placer } from "../scheduler/placer.ts";
import { clusterRequest } from "./order-nodes.ts";
import { judgedNodes, type PlaceDeps } from "./place-cluster.ts";

export interface ExplainClusterDeps extends Pick<PlaceDeps, "records" | "board"> {
  readonly view: Pick<ClusterView, "state">;
  readonly placer: Pick<Placer, "policyFor">;
}

export interface ClusterStory {
  readonly id: string;
  /** Where it is, its control plane first. */
  readonly nodes: readonly string[];
  /** Where it would go if it were placed now, none of its own in the way. */
  readonly now: ClusterExplanation;
}

type ClusterExplanation = Omit<Explanation, "strategy"> & {
  readonly strategy: Explanation["strategy"] | "fewest-clusters";
};

export class ExplainCluster {
  readonly #deps: ExplainClusterDeps;

  constructor(deps: ExplainClusterDeps) {
    this.#deps = deps;
  }

  /** Who may not see nodes learns how many were refused, and by what. */
  async story(key: string, ctx: Pick<RequestContext, "access" | "signal">): Promise<ClusterStory> {
    const record = this.#deps.records.collection(vclusterCollection).get(key)?.value;
    if (record === undefined) throw new AppError("object.not_found", `there is no virtual cluster ${key}`);
    const now =
      record.spec.rules === undefined ? this.#byCount(record) : await this.#byScheduler(record, ctx.signal);
    return { id: `vc/${record.tenant}/${record.name}`, nodes: nodesOf(record), now: seenBy(ctx, now) };
  }

  async #byScheduler(record: VirtualClusterRecord, signal: AbortSignal): Promise<ClusterExplanation> {
    const { view, placer } = this.#deps;
    const request = clusterRequest(record);
    const policy = await placer.policyFor(request, signal);
    const state = view.state().clone();
    for (const share of clusterShares(record)) state.remove(share.request.id);
    return explain(state, request, policy);
  }

  #byCount(record: VirtualClusterRecord): ClusterExplanation {
    const judged = judgedNodes(this.#deps, record);
    const fitting = judged.filter(({ refusal }) => refusal === undefined);
    const refused = judged.length - fitting.length;
    return {
      node: fitting[0]?.node,
      score: 0,
      nodes: judged.length,
      feasible: fitting.length,
      refused: refused === 0 ? {} : { NodeFit: refused },
      strategy: "fewest-clusters",
      weights: {},
      verdicts: judged.map(({ node, clusters, refusal }) =>
        refusal === undefined
          ? { node, refusals: [], parts: { clusters } }
          : { node, refusals: [{ filter: "NodeFit", why: refusal }] },
      ),
    };
  }
}
