// A virtual cluster on several nodes: its bridges are one network, over VXLAN between the nodes. Workers are dealt out to the
// nodes in turn, so that everybody knows who has which.

export interface OverlayNode {
  readonly node: string;
  /** By which the others reach it. */
  readonly address: string;
  /** Number of the replica of the control plane that it has; absent: it has none of several. */
  readonly slot?: number;
}

/** As all of its nodes know it. */
export interface ClusterSpread {
  /** In the order in which workers are dealt out; a node that leaves its control plane keeps its place. */
  readonly nodes: readonly OverlayNode[];
  /** Which of them has the control plane; absent: the first. */
  readonly home?: number;
  /** How many of them, from the first, have workers; absent: all. */
  readonly dealt?: number;
}

export interface ClusterOverlay extends ClusterSpread {
  /** Which of them this is. */
  readonly at: number;
}

/** Networks of clusters on several nodes are chosen by the servers, those of others by their node. */
export const FIRST_SHARED_NETWORK = 2048;
export const LAST_SHARED_NETWORK = 4095;
/** More have no address of their own beside those of workers. */
export const MOST_OVERLAY_NODES = 32;

/** A port of gpve's own: what comes in there from anybody but the cluster's nodes is dropped, and others' VXLAN is theirs. */
export const OVERLAY_PORT = 14_789;
const FIRST_VNI = 0x67_0000;

export function overlayVni(network: number): number {
  return FIRST_VNI + network;
}

/** It has workers here, and its control plane elsewhere. */
export function isBranch({ overlay }: { readonly overlay?: ClusterOverlay }): boolean {
  if (overlay === undefined || replicaSlot(overlay) !== undefined) return false;
  return overlay.at !== (overlay.home ?? 0);
}

/** Of the replica that is here; undefined = its control plane has one place. */
export function replicaSlot(overlay: ClusterOverlay | undefined): number | undefined {
  return overlay?.nodes[overlay.at]?.slot;
}

/** Whether a worker's place is this node. */
export function isOwnSlot(overlay: ClusterOverlay | undefined, slot: number): boolean {
  return overlay === undefined || slot % workerNodes(overlay) === overlay.at;
}

/** How many nodes have workers of it. */
export function workerNodes(overlay: ClusterOverlay | undefined): number {
  return overlay === undefined ? 1 : (overlay.dealt ?? overlay.nodes.length);
}

/** With its control plane on another node. One that none of its workers is on comes after all others. */
export function movedSpread(spread: ClusterSpread, to: OverlayNode): ClusterSpread {
  const { nodes, dealt = nodes.length } = spread;
  const known = nodes.findIndex(({ node }) => node === to.node);
  if (known < 0) return { nodes: [...nodes, to], home: nodes.length, dealt };
  // Nobody stays who has neither workers nor the control plane.
  const kept = nodes.slice(0, Math.max(dealt, known + 1));
  return { nodes: kept, home: known, dealt };
}

export function overlayPeers({ nodes, at }: ClusterOverlay): readonly string[] {
  return nodes.filter((_node, index) => index !== at).map(({ address }) => address);
}

/** Last number of this node's own address in the cluster's network: on one network two gateways cannot have one address. */
export function gatewayNumber(overlay: ClusterOverlay | undefined): number {
  return overlay === undefined || overlay.at === 0 ? 1 : 255 - overlay.at;
}
