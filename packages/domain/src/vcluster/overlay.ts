// A virtual cluster on several nodes: its bridges are one network, over VXLAN between the nodes. Workers are dealt out to the
// nodes in turn, so that everybody knows who has which.
import { given } from "@gpve/contracts/given.ts";

export interface OverlayNode {
  readonly node: string;
  /** By which the others reach it. */
  readonly address: string;
  /** Number of the replica of the control plane that it has; absent: it has none of several. */
  readonly slot?: number;
  /** It has this place beside its own, since the node that had it was lost. */
  readonly standsIn?: boolean;
}

/** A worker that was moved from where it was dealt to. */
export interface MovedWorker {
  readonly slot: number;
  readonly node: string;
}

/** As all of its nodes know it. */
export interface ClusterSpread {
  /** In the order in which workers are dealt out; a node that leaves its control plane keeps its place. */
  readonly nodes: readonly OverlayNode[];
  /** Which of them has the control plane; absent: the first. */
  readonly home?: number;
  /** How many of them, from the first, have workers; absent: all. */
  readonly dealt?: number;
  readonly moved?: readonly MovedWorker[];
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
/** Last number of the uppermost address of a cluster's network. */
const UPPERMOST = 254;

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
  return overlay === undefined || workerNode(overlay, slot) === overlay.nodes[overlay.at]?.node;
}

/** Which node has the worker of that place, or shall have it. */
export function workerNode(spread: ClusterSpread, slot: number): string | undefined {
  const { nodes, dealt = nodes.length, moved = [] } = spread;
  return moved.find((each) => each.slot === slot)?.node ?? nodes[slot % dealt]?.node;
}

/** The place of a node: its own, where it stands in for others too; -1 = it has none. */
export function placeIn({ nodes }: ClusterSpread, node: string): number {
  const own = nodes.findIndex((each) => each.node === node && each.standsIn !== true);
  return own < 0 ? nodes.findIndex((each) => each.node === node) : own;
}

/** As that node knows it; undefined = it has no part of it, or all of it. */
export function overlayOn(spread: ClusterSpread | undefined, node: string): SentOverlay | undefined {
  if (spread === undefined || spread.nodes.length < 2) return undefined;
  const at = placeIn(spread, node);
  if (at < 0) return undefined;
  const { nodes, home, dealt, moved } = spread;
  return {
    nodes: nodes.map((each) => ({ ...each })),
    at,
    ...given({ home, dealt, moved: moved?.map((each) => ({ ...each })) }),
  };
}

/** As it is said to a node. */
type SentOverlay = Omit<ClusterOverlay, "nodes" | "moved"> & {
  readonly nodes: OverlayNode[];
  readonly moved?: MovedWorker[];
};

/** How many nodes have workers of it. */
export function workerNodes(overlay: ClusterOverlay | undefined): number {
  if (overlay === undefined) return 1;
  const { nodes, dealt = nodes.length, moved = [] } = overlay;
  return new Set([...nodes.slice(0, dealt), ...moved].map(({ node }) => node)).size;
}

/** With its control plane on another node. One that none of its workers is on comes after all others. */
export function movedSpread(spread: ClusterSpread, to: OverlayNode): ClusterSpread {
  const { nodes, dealt = nodes.length, moved = [] } = spread;
  const known = placeIn(spread, to.node);
  const more = moved.length === 0 ? {} : { moved };
  if (known < 0) return { nodes: [...nodes, to], home: nodes.length, dealt, ...more };
  // Nobody stays who has neither workers nor the control plane.
  const used = moved.map(({ node }) => placeIn(spread, node) + 1);
  const kept = nodes.slice(0, Math.max(dealt, known + 1, ...used));
  return { nodes: kept, home: known, dealt, ...more };
}

/** Its node is lost, and it goes on at another one, which has the workers of the lost one too. */
export function recoveredSpread(spread: ClusterSpread, lost: string, to: OverlayNode): ClusterSpread {
  const { dealt, moved } = spread;
  const isKnown = placeIn(spread, to.node) >= 0;
  const nodes = spread.nodes.map((each) =>
    each.node === lost ? { ...to, ...(isKnown ? { standsIn: true } : {}) } : each,
  );
  const taken = moved?.map((each) => (each.node === lost ? { ...each, node: to.node } : each));
  return { nodes, home: placeIn({ nodes }, to.node), ...given({ dealt, moved: taken }) };
}

/** With a node that has nothing of it yet: it comes after all others. */
export function withNode(spread: ClusterSpread, to: OverlayNode): ClusterSpread {
  const { nodes, dealt = nodes.length } = spread;
  return placeIn(spread, to.node) < 0 ? { ...spread, nodes: [...nodes, to], dealt } : spread;
}

/** Without the last ones, where these have neither workers nor the control plane. */
export function trimmedSpread(spread: ClusterSpread): ClusterSpread {
  const { nodes, home = 0, dealt = nodes.length, moved = [] } = spread;
  const used = moved.map(({ node }) => placeIn(spread, node) + 1);
  return { ...spread, nodes: nodes.slice(0, Math.max(dealt, home + 1, ...used)) };
}

/** With a worker on another node; one that has none of it yet comes after all others. */
export function withMovedWorker(spread: ClusterSpread, slot: number, to: OverlayNode): ClusterSpread {
  const { nodes, dealt = nodes.length, moved: before = [], ...kept } = withNode(spread, to);
  const others = before.filter((each) => each.slot !== slot);
  const isDealt = nodes[slot % dealt]?.node === to.node;
  const moved = isDealt ? others : [...others, { slot, node: to.node }];
  return { ...kept, nodes, dealt, ...(moved.length === 0 ? {} : { moved }) };
}

export function overlayPeers({ nodes, at }: ClusterOverlay): readonly string[] {
  const own = nodes[at]?.node;
  return [...new Set(nodes.filter(({ node }) => node !== own).map(({ address }) => address))];
}

/** Last number of this node's own address in the cluster's network: on one network two gateways cannot have one address. */
export function gatewayNumber(overlay: ClusterOverlay | undefined): number {
  return overlay === undefined || overlay.at === 0 ? 1 : UPPERMOST - (overlay.at - 1);
}

/** Of those that nodes of a cluster on several can have; what is below is free for others. */
export const LOWEST_GATEWAY = UPPERMOST - (MOST_OVERLAY_NODES - 2);
