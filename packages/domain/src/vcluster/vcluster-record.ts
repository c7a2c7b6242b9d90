// Virtual clusters as the cluster's store has them: what is wanted, and which node has it. What is, is told by that node.
import { given } from "@gpve/contracts/given.ts";
import type { FollowedTask } from "./backup/followed-task.ts";
import type { ClusterSpread } from "./overlay.ts";
import type { ClusterRecovery, ClusterStandby } from "./standby/standby.ts";
import type { VirtualClusterSpec } from "./vcluster-spec.ts";
import { unknownShape } from "../record/collection.ts";

export interface VirtualClusterRecord {
  /** Unique in its tenant. */
  readonly name: string;
  /** By which the store and the nodes know it (cluster-key.ts); absent: its name. */
  readonly key?: string;
  /** The pool it belongs to. */
  readonly tenant: string;
  readonly node: string;
  readonly spec: VirtualClusterSpec;
  /** Where it is on several nodes: its network, and all of them. */
  readonly spread?: ClusterSpread & { readonly network: number };
  /** What its volumes may have, where its tenant's storage is bounded and its spec says no bound: it follows what its claims ask for. */
  readonly volumeRoom?: number;
  /** The node that it has left, where that may still have something of it. */
  readonly formerly?: string;
  /** Nodes whose replica was replaced, where they may still have something of it. */
  readonly abandoned?: readonly string[];
  /** Who follows its store. */
  readonly standby?: ClusterStandby;
  /** It goes on from its standby, since its node was lost. */
  readonly recovered?: ClusterRecovery;
  /** A task of its node that it comes to follow. */
  readonly follows?: FollowedTask;
  /** It is being deleted: no replica of it is replaced any more, and nobody begins to follow it. */
  readonly isLeaving?: true;
  /** The request that had it made. */
  readonly madeBy: string;
}

export function keyOf({ key, name }: Pick<VirtualClusterRecord, "key" | "name">): string {
  return key ?? name;
}

/** As it counts for its tenant. */
export function heldSpec({
  spec,
  volumeRoom,
}: Pick<VirtualClusterRecord, "spec" | "volumeRoom">): VirtualClusterSpec {
  return spec.volumeBytes !== undefined || volumeRoom === undefined
    ? spec
    : { ...spec, volumeBytes: volumeRoom };
}

/** All that have a part of it, the one with its control plane first. */
export function nodesOf({ node, spread }: Pick<VirtualClusterRecord, "node" | "spread">): readonly string[] {
  const others = spread?.nodes.map((each) => each.node) ?? [];
  return [...new Set([node, ...others])];
}

/** Where a cluster goes that does not say: the tenant that every installation has. */
export const DEFAULT_TENANT = "default";

export const vclusterCollection = {
  prefix: "/gpve/vclusters/",
  decode: (json: unknown): VirtualClusterRecord => {
    const row = json as Partial<VirtualClusterRecord> | null;
    if (
      typeof row?.name !== "string" ||
      typeof row.tenant !== "string" ||
      typeof row.node !== "string" ||
      typeof row.spec !== "object"
    )
      throw unknownShape("a virtual cluster in the store");
    const { name, key, tenant, node, spec, spread, formerly, abandoned, isLeaving, madeBy = "" } = row;
    const { standby, recovered, follows, volumeRoom } = row;
    const apart = given({ formerly, abandoned, standby, recovered, follows, isLeaving });
    const more = { ...given({ key, spread, volumeRoom }), ...apart };
    return { name, tenant, node, spec, ...more, madeBy };
  },
};
