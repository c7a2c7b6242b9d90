// Which node gets a new virtual cluster.
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { invalidSpec } from "@gpve/domain/vcluster/invalid-spec.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { nodesOf, vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { kataRefusal, kataRefused } from "@gpve/domain/vcluster/vnode/kata.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../node/collections.ts";

export interface PlaceDeps {
  readonly records: Records;
  readonly board: NodeBoard;
}

type Wanted = Pick<VirtualClusterSpec, "node" | "nodeSelector" | "isolationLevel">;

/** The one that is asked for, else the online one with the fewest. */
export function placeCluster(deps: PlaceDeps, wanted: Wanted): string {
  const { node } = wanted;
  const online = fittingNodes(deps, wanted);
  const there = node === "" ? undefined : deps.board.get(node);
  if (there?.health === "online") requireLevel([there], wanted);
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

/** Those that can have workers of the level; none: why each cannot. */
function requireLevel(
  nodes: readonly NodeView[],
  { isolationLevel }: Pick<Wanted, "isolationLevel">,
): readonly NodeView[] {
  if (isolationLevel !== "L2" || nodes.length === 0) return nodes;
  const refusals = nodes.map((view) => ({ view, why: kataRefusal(view.facts?.capabilities) }));
  const able = refusals.filter(({ why }) => why === undefined).map(({ view }) => view);
  if (able.length > 0) return able;
  const reasons = refusals.map(({ view, why = "" }) => `${view.node}: ${why}`).join("; ");
  throw invalidSpec("isolationLevel", kataRefused(reasons));
}

/** Those that are online, have the labels and can have its workers, the one with the fewest clusters first. */
export function fittingNodes(
  { board, records }: PlaceDeps,
  { nodeSelector = {}, isolationLevel }: Pick<Wanted, "nodeSelector" | "isolationLevel">,
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
  return requireLevel(online, { isolationLevel }).toSorted(
    (a, b) => load(a.node) - load(b.node) || (a.node < b.node ? -1 : 1),
  );
}
