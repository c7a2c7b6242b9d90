// Which node gets a new virtual cluster.
import { AppError } from "@gpve/contracts/errors.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import { isInMaintenance, managerCollection } from "@gpve/domain/ha/collections.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { invalidSpec } from "@gpve/domain/vcluster/invalid-spec.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import {
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { kataOf, kataRefused } from "@gpve/domain/vcluster/vnode/kata.ts";
import type { Entry, Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../node/collections.ts";
import { type ControlPlane, type Sized, whyClosed, whyNoControlPlane, whyNoRoom } from "./node-refusal.ts";
import { whyNoVolumes } from "./volumes/volume-storage.ts";

export interface PlaceDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  /** Where the cluster has rules of its own: what the scheduler says of each node. */
  readonly order?: NodeOrder;
}

export interface NodeOrder {
  /** Lower is better. */
  rank(node: string): number;
  /** Why it may not go there; undefined: it may. */
  refusal(node: string): string | undefined;
}

type Fitting = Pick<VirtualClusterSpec, "nodeSelector" | "isolationLevel" | "volumeStorage"> & Sized;
type Wanted = Fitting & Pick<VirtualClusterSpec, "node">;
export type New = Wanted & ControlPlane;

/** The one that is asked for, else of those that are open and have room the one with the fewest. */
export function placeCluster(deps: PlaceDeps, wanted: New): string {
  if (wanted.node !== "") {
    const view = requireNode(deps, wanted);
    const why = whyNoControlPlane(view, wanted);
    if (why !== undefined) throw noRoomOn(view, why);
    return requireRoomOn(view, wanted);
  }
  const online = onlineNodes(deps, wanted);
  const [best] = largeEnough(open(deps, online, wanted), wanted);
  if (best !== undefined) return best.node;
  if (online.length === 0)
    throw new AppError("node.unavailable", "no node is online that could have a virtual cluster");
  const reasons = online
    .map((view) => `${view.node}: ${refusal(deps, view, wanted) ?? whyNoControlPlane(view, wanted) ?? ""}`)
    .toSorted();
  throw new AppError("capacity.exceeded", `no node can have the virtual cluster. ${reasons.join("; ")}`);
}

/** The one that is asked for, with all that it has to have but room. Who names it means it, also where it is closed to others. */
export function requireNode({ records, board }: Omit<PlaceDeps, "order">, wanted: Wanted): NodeView {
  const { node } = wanted;
  const found = board.get(node);
  if (found?.health !== "online") {
    const online = board.list().filter(({ health }) => health === "online");
    const known = online.map((each) => each.node).join(", ");
    const text = `spec.node: '${node}' is no node that is online; these are: ${known}`;
    throw invalidField("spec.node", "is no node that is online", text);
  }
  requireLevel([found], wanted);
  if (!hasLabels(records, node, wanted))
    throw invalidSpec("workerNodes.nodeSelector", `node ${node} does not have these labels`);
  const lacks = whyNoVolumes(records, node, wanted);
  if (lacks !== undefined) throw invalidSpec("volumes.storage", `node ${node} cannot have them: ${lacks}`);
  return found;
}

/** Answers with its name. */
export function requireRoomOn(view: NodeView, spec: Sized): string {
  const why = whyNoRoom(view, spec);
  if (why === undefined) return view.node;
  throw noRoomOn(view, why);
}

function noRoomOn({ node }: NodeView, why: string): AppError {
  return new AppError("capacity.exceeded", `node ${node} cannot have the virtual cluster: ${why}`);
}

function refusal({ records, order }: PlaceDeps, view: NodeView, spec: Fitting): string | undefined {
  const lacks = whyNoVolumes(records, view.node, spec);
  if (lacks !== undefined) return lacks;
  // It has looked at cordons and taints too, some of which the rules tolerate.
  return (
    (order === undefined ? closed(records, view.node) : order.refusal(view.node)) ?? whyNoRoom(view, spec)
  );
}

function closed(records: Pick<Records, "collection">, node: string): string | undefined {
  const record = records.collection(nodeRecords).get(node)?.value;
  return whyClosed(record, isInMaintenance(node, records.collection(managerCollection)));
}

function open(deps: PlaceDeps, nodes: readonly NodeView[], spec: Fitting): readonly NodeView[] {
  return nodes.filter((view) => refusal(deps, view, spec) === undefined);
}

/** Those that can have workers of the level, else those that have not told yet, which are asked; none: why each cannot. */
function requireLevel(
  nodes: readonly NodeView[],
  { isolationLevel }: Pick<Wanted, "isolationLevel">,
): readonly NodeView[] {
  if (isolationLevel !== "L2" || nodes.length === 0) return nodes;
  const told = nodes.map((view) => ({ view, kata: kataOf(view.facts?.capabilities) }));
  for (const wanted of ["able", "untold"] as const) {
    const found = told.filter(({ kata }) => kata === wanted).map(({ view }) => view);
    if (found.length > 0) return found;
  }
  const reasons = told.map(
    ({ view, kata }) => `${view.node}: ${typeof kata === "object" ? kata.refusal : kata}`,
  );
  throw invalidSpec("isolationLevel", kataRefused(reasons.join("; ")));
}

/** Those that are online and open, have the labels and room and can have its workers; the one with the fewest clusters first. */
export function fittingNodes(deps: PlaceDeps, spec: Fitting): readonly NodeView[] {
  return open(deps, onlineNodes(deps, spec), spec);
}

/** Those that could have a new one, with the control plane that it asks for. */
export function fittingNewNodes(deps: PlaceDeps, spec: Fitting & ControlPlane): readonly NodeView[] {
  return largeEnough(fittingNodes(deps, spec), spec);
}

function largeEnough(nodes: readonly NodeView[], spec: ControlPlane): readonly NodeView[] {
  return nodes.filter((view) => whyNoControlPlane(view, spec) === undefined);
}

function onlineNodes(
  { board, records, order }: PlaceDeps,
  wanted: Pick<Wanted, "nodeSelector" | "isolationLevel">,
): readonly NodeView[] {
  const all = board.list().filter(({ health }) => health === "online");
  const online = all.filter(({ node }) => hasLabels(records, node, wanted));
  if (online.length === 0 && all.length > 0)
    throw new AppError(
      "request.invalid",
      `spec.workerNodes.nodeSelector: no node that is online has these labels; online are: ${all.map(({ node }) => node).join(", ")}`,
      { errors: { "spec.workerNodes.nodeSelector": "fits no node that is online" } },
    );
  const loads = controlPlanes(records.collection(vclusterCollection).list());
  const load = (node: string): number => loads.get(node) ?? 0;
  const rank = (node: string): number => order?.rank(node) ?? 0;
  return requireLevel(online, wanted).toSorted(
    (a, b) => rank(a.node) - rank(b.node) || load(a.node) - load(b.node) || (a.node < b.node ? -1 : 1),
  );
}

function hasLabels(
  records: Pick<Records, "collection">,
  node: string,
  { nodeSelector = {} }: Pick<Wanted, "nodeSelector">,
): boolean {
  const labels = records.collection(nodeRecords).get(node)?.value.labels ?? {};
  return Object.entries(nodeSelector).every(([key, value]) => labels[key] === value);
}

interface JudgedNode {
  readonly node: string;
  /** Others that it has. */
  readonly clusters: number;
  /** Why it could not have this one; undefined: it could. */
  readonly refusal: string | undefined;
}

/** For a cluster without rules that is there already: every node, the one it would go to first, those that cannot last. */
export function judgedNodes(
  { records, board }: Pick<PlaceDeps, "records" | "board">,
  record: VirtualClusterRecord,
): readonly JudgedNode[] {
  const { spec } = record;
  const { nodeSelector = {} } = spec;
  const loads = controlPlanes(records.collection(vclusterCollection).list());
  const own = new Set(hasReplicas(record.spread) ? nodesOf(record) : [record.node]);
  const whyNot = (view: NodeView): string | undefined => {
    const labels = records.collection(nodeRecords).get(view.node)?.value.labels ?? {};
    const lacking = Object.entries(nodeSelector).find(([key, value]) => labels[key] !== value);
    const kata = spec.isolationLevel === "L2" ? kataOf(view.facts?.capabilities) : "able";
    if (view.health !== "online") return "it is not online";
    if (lacking !== undefined) return `it lacks the label ${lacking.join("=")}`;
    if (typeof kata === "object") return kata.refusal;
    // What is there has its room there.
    return own.has(view.node)
      ? (whyNoVolumes(records, view.node, spec) ?? closed(records, view.node))
      : refusal({ records, board }, view, spec);
  };
  return board
    .list()
    .map((view) => ({
      node: view.node,
      clusters: (loads.get(view.node) ?? 0) - (own.has(view.node) ? 1 : 0),
      refusal: whyNot(view),
    }))
    .toSorted(
      (a, b) =>
        Number(a.refusal !== undefined) - Number(b.refusal !== undefined) ||
        a.clusters - b.clusters ||
        (a.node < b.node ? -1 : 1),
    );
}

const counted = new WeakMap<readonly Entry<VirtualClusterRecord>[], ReadonlyMap<string, number>>();

/** How many each node has. A list stays what it is: it is counted once for all that ask, which is every cluster every second. */
function controlPlanes(clusters: readonly Entry<VirtualClusterRecord>[]): ReadonlyMap<string, number> {
  const known = counted.get(clusters);
  if (known !== undefined) return known;
  const loads = new Map<string, number>();
  for (const { value } of clusters)
    for (const node of new Set(hasReplicas(value.spread) ? nodesOf(value) : [value.node]))
      loads.set(node, (loads.get(node) ?? 0) + 1);
  counted.set(clusters, loads);
  return loads;
}
