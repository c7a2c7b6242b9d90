// What is told to servers of an etcd and its standby, from what its member says.
import {
  type EtcdPairNote,
  isShared,
  type PairMember,
  pairPeerUrl,
  standbyMember,
} from "@gpve/domain/vcluster/standby/etcd-pair.ts";
import type { StandbyRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { MemberStatus } from "../etcd-admin.ts";
import type { PairHello } from "./pair-line.ts";

/** undefined = it does not answer. */
export interface AskedMember {
  readonly asked: { readonly ownId: string; readonly members: readonly PairMember[] } | undefined;
  readonly status: MemberStatus | undefined;
}

export interface SeenLead extends AskedMember {
  readonly generation: number;
  readonly note: EtcdPairNote;
  /** It stands still, with its cluster. */
  readonly isSilent: boolean;
  /** The other node answers for the standby. */
  readonly isThere: boolean;
  /** One of the two leads, or they have only just met. */
  readonly isMet: boolean;
  readonly before: StandbyRuntime | undefined;
}

/** What the standby of that generation is to it. */
export function standing(
  { members }: NonNullable<AskedMember["asked"]>,
  generation: number,
): PairHello["is"] {
  const url = pairPeerUrl(standbyMember(generation));
  const found = members.find(({ peerUrls }) => peerUrls.includes(url));
  if (found === undefined) return "nothing yet";
  return found.isLearner ? "learner" : "voter";
}

/** That it counts is said only where it is known to have a vote. */
export function tellPair(seen: SeenLead): StandbyRuntime {
  const { generation, note, asked, status, isThere, isMet, before } = seen;
  const revision = status?.revision ?? before?.revision ?? 0;
  const of = (isJoined: boolean, isConnected: boolean): StandbyRuntime => {
    const confirmed = isJoined ? revision : 0;
    return { generation, isJoined, isConnected, revision, confirmed };
  };
  const mayBeJoined = note.shared !== undefined;
  if (note.wish?.mode === "solo") return of(mayBeJoined, false);
  if (asked === undefined)
    return of(mayBeJoined, isShared(note) && note.hasVote === true && isThere && (seen.isSilent || isMet));
  const isVoter = isShared(note) && standing(asked, generation) === "voter";
  return of(isVoter, isThere && (!isVoter || isMet));
}
