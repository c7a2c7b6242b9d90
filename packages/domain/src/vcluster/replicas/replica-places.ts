// Where the replicas of a control plane are: each on a node of its own, with a number of its own, by which it has an address
// in the cluster's network and a name in its store. A number is not given twice in a row: who comes instead of one that was
// lost is another member to the store.
import type { OverlayNode } from "../overlay.ts";

/** Of addresses below those of workers. */
const REPLICA_SLOTS = 8;
/** What etcd can lose one of; more make its writes slower. */
export const OFFERED_REPLICAS = 3;
/** Last number of the first replica's address. */
const FIRST_ADDRESS = 2;
const DAY_MS = 86_400_000;

/** Last number of a replica's address in the cluster's network; that of a control plane that is alone is the first. */
export function replicaNumber(slot: number | undefined): number {
  return FIRST_ADDRESS + (slot ?? 0);
}

/** All that replicas have ever or may get, in the network of the one at that address. */
export function replicaAddresses(own: string): readonly string[] {
  return Array.from({ length: REPLICA_SLOTS }, (_none, slot) =>
    own.replace(/\d+$/, String(replicaNumber(slot))),
  );
}

export function memberName(slot: number): string {
  return `member-${slot}`;
}

/** The first of each, where they are made. */
export function placeReplicas(nodes: readonly OverlayNode[]): readonly OverlayNode[] {
  return nodes.map((each, slot) => ({ ...each, slot }));
}

/** Another node, or the same one anew, in the place of one. Everybody else's place stays. */
export function withReplacement(
  nodes: readonly OverlayNode[],
  lost: string,
  by: OverlayNode,
): readonly OverlayNode[] {
  const taken = nodes.flatMap(({ slot }) => slot ?? []);
  const last = nodes.find(({ node }) => node === lost)?.slot ?? 0;
  const free = Array.from({ length: REPLICA_SLOTS }, (_none, at) => (last + 1 + at) % REPLICA_SLOTS);
  const slot = free.find((each) => !taken.includes(each)) ?? last;
  return nodes.map((each) => (each.node === lost ? { ...by, slot } : each));
}

/** Each has days of its own on which it is started again for new certificates: two at once would cost the majority. */
export function isRenewalDay(slot: number | undefined, now: number): boolean {
  return slot === undefined || Math.floor(now / DAY_MS) % REPLICA_SLOTS === slot;
}

export function hasReplicas(spread: { readonly nodes: readonly OverlayNode[] } | undefined): boolean {
  return spread?.nodes.some(({ slot }) => slot !== undefined) === true;
}
