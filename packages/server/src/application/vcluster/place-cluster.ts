// Which node gets a new virtual cluster.
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { nodesOf, vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../node/collections.ts";

export interface PlaceDeps {
  readonly records: Records;
  readonly board: NodeBoard;
}

type Wanted = Pick<VirtualClusterSpec, "node" | "nodeSelector">;

/** The one that is asked for, else the online one with the fewest. */
export function placeCluster(deps: PlaceDeps, wanted: Wanted): string {
  const { node } = wanted;
  const online = fittingNodes(deps, wanted);
  if (node !== "") {
    if (online.some((each) => each.node === node)) return node;
    const known = online.map((each) => each.node).join(", ");
    throw new AppError(
      "request.invalid",
      `spec.node: '${node}' is no node that is online; these are: ${known}`,
      {
        errors: { "spec.node": "is no node that is online" },
      },
    );
  }
  const [best] = online;
  if (best !== undefined) return best.node;
  throw new AppError("node.unavailable", "no node is online that could have a virtual cluster");
}

/** Those that are online and have the labels, the one with the fewest clusters first. */
export function fittingNodes(
  { board, records }: PlaceDeps,
  { nodeSelector = {} }: Pick<Wanted, "nodeSelector">,
): readonly NodeView[] {
  const labels = (node: string) => records.collection(nodeRecords).get(node)?.value.labels ?? {};
  const all = board.list().filter(({ health }) => health === "online");
  const online = all.filter(({ node }) =>
    Object.entries(nodeSelector).every(([key, value]) => labels(node)[key] === value),
  );
  if (online.length === 0 && all.length > 0)
    throw new AppError(
      "request.invalid",
      `spec.workerNodes.nodeSelector: no node that is online has these labels; online are: ${all.map(({ node }) => node).join(", ")}`,
      { errors: { "spec.workerNodes.nodeSelector": "fits no node that is online" } },
    );
  const clusters = records.collection(vclusterCollection).list();
  const load = (node: string): number =>
    clusters.filter(({ value }) => {
      const has = hasReplicas(value.spread) ? nodesOf(value) : [value.node];
      return has.includes(node);
    }).length;
  return online.toSorted((a, b) => load(a.node) - load(b.node) || (a.node < b.node ? -1 : 1));
}
