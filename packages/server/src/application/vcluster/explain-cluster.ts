// Why a virtual cluster is where it is, as it was decided for each part of it, and where it would go now.
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Explanation } from "@gpve/domain/scheduler/explain.ts";
import { clusterShares } from "@gpve/domain/vcluster/cluster-shares.ts";
import {
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import type { ClusterView } from "../scheduler/cluster-view.ts";
import { seenBy } from "../scheduler/explain-placement.ts";
import type { Placer } from "../scheduler/placer.ts";
import { explainPart, partAt } from "./placing/choose-node.ts";
import { clusterDecisionsDef, type PartDecision } from "./placing/cluster-decisions.ts";
import { clusterFilters } from "./placing/cluster-filters.ts";
import { clusterId, partName } from "./placing/cluster-request.ts";
import type { NodesDeps } from "./placing/named-node.ts";

export interface ExplainClusterDeps extends NodesDeps {
  readonly view: Pick<ClusterView, "state">;
  readonly placer: Pick<Placer, "policyFor">;
}

export interface ClusterStory {
  readonly id: string;
  /** Where it is, its control plane first. */
  readonly nodes: readonly string[];
  /** How its parts came where they are, or were before somebody moved them; none: their nodes were named. */
  readonly decisions: readonly (Omit<PartDecision, "at"> & { readonly at: string })[];
  /** Where its control plane would go if it were placed now, none of its own in the way. */
  readonly now: Explanation;
}

export class ExplainCluster {
  readonly #deps: ExplainClusterDeps;

  constructor(deps: ExplainClusterDeps) {
    this.#deps = deps;
  }

  /** Who may not see nodes learns how many were refused, and by what. */
  async story(key: string, ctx: Pick<RequestContext, "access" | "signal">): Promise<ClusterStory> {
    const { records } = this.#deps;
    const record = records.collection(vclusterCollection).get(key)?.value;
    if (record === undefined) throw new AppError("object.not_found", `there is no virtual cluster ${key}`);
    const { parts = [] } = records.collection(clusterDecisionsDef).get(key)?.value ?? {};
    // Nobody follows any more that was given up.
    const decisions = parts.filter(({ part, node }) => part !== "standby" || node === record.standby?.node);
    return {
      id: clusterId(record),
      nodes: nodesOf(record),
      decisions: decisions.map(({ explanation, at, ...each }) => ({
        ...each,
        at: new Date(at).toISOString(),
        explanation: seenBy(ctx, explanation),
      })),
      now: seenBy(ctx, await this.#now(record, ctx.signal)),
    };
  }

  async #now(record: VirtualClusterRecord, signal: AbortSignal): Promise<Explanation> {
    const { view, placer } = this.#deps;
    const request = partAt(record, record.node, partName(record.spec, 0));
    const policy = await placer.policyFor(request, signal);
    const state = view.state().clone();
    for (const share of clusterShares(record)) state.remove(share.request.id);
    const filters = clusterFilters(this.#deps, record.spec, { there: new Set(nodesOf(record)) });
    return explainPart(state, policy, request, { filters });
  }
}
