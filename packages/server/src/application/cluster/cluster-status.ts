import { nodeListRow } from "./resource-rows.ts";
import type { AccessView } from "@gpve/domain/request/context.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";

export interface OwnCluster {
  /** undefined = one node, no cluster. */
  readonly name: string | undefined;
  readonly localNode: string;
  /** Whether the store can be written now. */
  readonly quorate: () => boolean;
  readonly version: () => number;
}

/** One cluster row (when there is a cluster) and one row per node, as PVE lists them. */
export function clusterStatus(board: NodeBoard, identity: OwnCluster): readonly Record<string, unknown>[] {
  const views = board.list();
  const local = localView(views, identity.localNode);
  const isAlone = identity.name === undefined && views.length <= 1;
  const nodes = views.map((view) => ({
    id: `node/${view.node}`,
    type: "node",
    name: view.node,
    nodeid: isAlone ? 0 : view.nodeid,
    ip: view.address,
    local: view === local ? 1 : 0,
    online: view.health === "online" ? 1 : 0,
    level: "",
  }));
  if (identity.name === undefined) return nodes;
  const cluster = {
    id: "cluster",
    type: "cluster",
    name: identity.name,
    nodes: views.length,
    version: identity.version(),
    quorate: identity.quorate() ? 1 : 0,
  };
  return [cluster, ...nodes];
}

/**
 * The node a server runs on. One on a machine that is none names the oldest that answers: clients take the local node
 * for granted, and every node can be reached through every server.
 */
function localView(views: readonly NodeView[], localNode: string): NodeView | undefined {
  const byAge = views.toSorted((a, b) => a.nodeid - b.nodeid);
  return (
    views.find(({ node }) => node === localNode) ??
    byAge.find(({ health }) => health === "online") ??
    byAge[0]
  );
}

/** Rows of GET /nodes; figures are for who may audit the node. */
export function nodeList(
  board: NodeBoard,
  fingerprintOf: (node: string) => string,
  access: Pick<AccessView, "has">,
): readonly Record<string, unknown>[] {
  return board
    .list()
    .map((view) =>
      nodeListRow(view, fingerprintOf(view.node), access.has(`/nodes/${view.node}`, ["Sys.Audit"])),
    );
}
