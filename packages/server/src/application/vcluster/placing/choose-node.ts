// A node for one part of a cluster that is there already: a standby, or a replica in the place of one that is lost.
import type { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import { explain, type Explanation } from "@gpve/domain/scheduler/explain.ts";
import type { PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import type { CustomPlugin } from "@gpve/domain/scheduler/plugin.ts";
import type { Policy } from "@gpve/domain/scheduler/policy.ts";
import { isInMaintenance, managerCollection } from "@gpve/domain/ha/collections.ts";
import { clusterShares } from "@gpve/domain/vcluster/cluster-shares.ts";
import { FIRST_SHARED_NETWORK, placeIn } from "@gpve/domain/vcluster/overlay.ts";
import { nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { nodeRecords } from "../../node/collections.ts";
import { clusterFilters, nodeFilter } from "./cluster-filters.ts";
import { type PartName, requestFor } from "./cluster-request.ts";
import type { NodesDeps } from "./named-node.ts";

/** What the part at that node takes, wherever it goes. */
export function partAt(record: VirtualClusterRecord, node: string, part: PartName): PlacementRequest {
  const share = clusterShares(record).find((each) => each.node === node);
  return requestFor(record, part, share?.request.demand ?? { cpu: 0, memory: 0 });
}

/** `instead`: what is there of the cluster gives its room back. */
export function explainPart(
  state: ClusterState,
  policy: Policy,
  request: PlacementRequest,
  { filters, instead }: { readonly filters: readonly CustomPlugin[]; readonly instead?: string },
): Explanation {
  const standing = instead === undefined ? undefined : state.guest(instead);
  if (standing !== undefined) state.remove(standing.request.id);
  try {
    return explain(state, request, { ...policy, custom: [...policy.custom, ...filters] });
  } finally {
    if (standing !== undefined) state.place(standing);
  }
}

/** For a replica: nodes that have none, and nothing left of one. */
export function replicaFilters(deps: NodesDeps, record: VirtualClusterRecord): readonly CustomPlugin[] {
  const own = new Set(nodesOf(record));
  return [...clusterFilters(deps, record.spec), ownParts(own), abandoned(record)];
}

/** For a standby: another node than the cluster's, open to whatever it tolerates, from which it can go on. */
export function standbyFilters(deps: NodesDeps, record: VirtualClusterRecord): readonly CustomPlugin[] {
  const { spread, node, standby, spec } = record;
  const { records } = deps;
  // A number that its first node chose may be another cluster's elsewhere.
  const isKnown = (each: string): boolean =>
    spread === undefined || spread.network >= FIRST_SHARED_NETWORK || placeIn(spread, each) >= 0;
  // Also where filters of the scheduler are switched off: it goes on there unasked.
  const isOpen = (each: string): boolean =>
    records.collection(nodeRecords).get(each)?.value.unschedulable !== true &&
    !isInMaintenance(each, records.collection(managerCollection));
  return [
    ...clusterFilters(deps, spec),
    ownParts(new Set([node])),
    abandoned(record),
    nodeFilter("StandbyPlace", ({ name }) => {
      if (name === standby?.node) return "its standby is there, and is given up";
      if (!isOpen(name)) return "it is cordoned, or in maintenance";
      return isKnown(name) ? undefined : "another cluster may have the number of its network there";
    }),
  ];
}

function ownParts(own: ReadonlySet<string>): CustomPlugin {
  return nodeFilter("OwnParts", ({ name }) => (own.has(name) ? "a part of it is there already" : undefined));
}

function abandoned({ abandoned: left = [] }: VirtualClusterRecord): CustomPlugin {
  return nodeFilter("LeftBehind", ({ name }) =>
    left.includes(name) ? "it may still have what the cluster left there" : undefined,
  );
}
