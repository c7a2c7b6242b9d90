// An etcd with a standby is one of two members, each on a node of its own, and nothing is answered that both do not have. What is
// to be done next at the member of the control plane follows from what a server said last and what the members say; done again it
// says the same, until what it said has come about (docs/adr/0016-standby-of-a-single-etcd.md).
import { given } from "@gpve/contracts/given.ts";
import { isBranch } from "../overlay.ts";
import type { KeptCluster } from "../ports.ts";
import type { LeadWish } from "./ports.ts";

/** The first member of a cluster that has always been on its node, or has come there by a move. */
export const FIRST_MEMBER = "first";
/** Every standby is another member: one that was given up is never taken for its successor. */
export function standbyMember(generation: number): string {
  return `s${generation}`;
}

export function isMemberName(text: string): boolean {
  return text === FIRST_MEMBER || /^s\d{1,16}$/.test(text);
}

/** A socket in the folder that etcd is started in: members have no address, and nobody else can knock at them. */
export function pairPeerUrl(member: string): string {
  return `unix://${pairSocket(member)}`;
}

/** etcd wants its addresses to have a port. */
export function pairSocket(member: string): string {
  return `${member}:0`;
}

/** How the member of the control plane is started. */
export interface EtcdPairStart {
  readonly name: string;
  /** As a cluster of one member, whoever was one before: the generation of whom it goes on without; absent: as it was. */
  readonly alone?: number;
}

/** What the node that has the control plane keeps beside the data of its etcd. */
export interface EtcdPairNote {
  readonly wish?: LeadWish;
  /** Its own name; absent: the first. */
  readonly member?: string;
  /** The generation of the standby that may have a vote; written before it gets that, and taken away when it has none. */
  readonly shared?: number;
  /** It has been seen to have it. */
  readonly hasVote?: true;
}

export interface PairMember {
  readonly id: string;
  readonly peerUrls: readonly string[];
  readonly isLearner: boolean;
}

export interface SeenPair {
  readonly note: EtcdPairNote;
  /** As it says; undefined = it does not answer. */
  readonly asked: { readonly ownId: string; readonly members: readonly PairMember[] } | undefined;
  /** The process that runs was started to go on without that one; absent: as it was. */
  readonly alone: number | undefined;
  /** It listens where the other member looks for it. */
  readonly hasSocket: boolean;
  /** The other node answers for the standby of this generation. */
  readonly isThere: boolean;
}

export type PairStep =
  /** Ended, and started to go on alone. */
  | { readonly do: "alone" }
  /** Ended, and started as it was. */
  | { readonly do: "restart" }
  /** Nobody else has a vote any more: that is written down. */
  | { readonly do: "settle" }
  | { readonly do: "remove"; readonly id: string }
  /** It is reached by its socket from now on. */
  | { readonly do: "rename"; readonly id: string }
  | { readonly do: "add" }
  /** It may have a vote; that is written down first. */
  | { readonly do: "promote"; readonly id: string };

/** Whether the etcd of a cluster on this node is one that a second member may join. One of several replicas' is a member of those. */
export function hasSingleEtcd({
  spec,
  overlay,
  network,
}: Pick<KeptCluster, "spec" | "overlay" | "network">): boolean {
  return (
    spec.backingStore === "etcd" &&
    spec.replicas === 1 &&
    network !== undefined &&
    !isBranch({ ...given({ overlay }) })
  );
}

/** Whether the member that may have a vote is the one that a server wants to have it. */
export function isShared({ wish, shared }: EtcdPairNote): boolean {
  return wish?.mode === "stream" && shared === wish.generation;
}

export function pairStart(note: EtcdPairNote): EtcdPairStart {
  const { member: name = FIRST_MEMBER, shared } = note;
  return shared === undefined || isShared(note) ? { name } : { name, alone: shared };
}

export function nextPairStep(seen: SeenPair): PairStep | undefined {
  const { note, asked, isThere } = seen;
  const isOurs = isShared(note);
  // Without the others it may not even answer who they are.
  if (asked === undefined) {
    const isBegun = note.shared === undefined || seen.alone === note.shared;
    return isOurs || isBegun ? undefined : { do: "alone" };
  }
  const others = asked.members.filter(({ id }) => id !== asked.ownId);
  const voters = others.filter(({ isLearner }) => !isLearner);
  if (!isOurs && voters.length > 0) return { do: "alone" };
  if (!isOurs && note.shared !== undefined) return { do: "settle" };
  const { wish } = note;
  const wanted = wish?.mode === "stream" ? pairPeerUrl(standbyMember(wish.generation)) : undefined;
  const isWanted = ({ peerUrls }: PairMember): boolean => wanted !== undefined && peerUrls.includes(wanted);
  const stranger = others.find((each) => !isWanted(each));
  if (stranger !== undefined) return { do: "remove", id: stranger.id };
  if (wanted === undefined) return undefined;
  const url = pairPeerUrl(note.member ?? FIRST_MEMBER);
  const own = asked.members.find(({ id }) => id === asked.ownId);
  if (own?.peerUrls.join() !== url) return { do: "rename", id: asked.ownId };
  if (!seen.hasSocket) return { do: "restart" };
  const [standby] = others;
  if (!isThere) return undefined;
  if (standby === undefined) return { do: "add" };
  return standby.isLearner ? { do: "promote", id: standby.id } : undefined;
}
