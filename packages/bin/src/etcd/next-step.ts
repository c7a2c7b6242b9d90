// What a server that runs etcd itself has to do next about its member. Pure: what it sees goes in, one step comes out.
import type { StoreMember } from "@gpve/store/etcd/members.ts";

/** One may be lost, as with five two: gpve runs three, more are standing by. */
export const WANTED_MEMBERS = 3;

export type Step =
  /** All is as it should be. */
  | { readonly do: "nothing" }
  /** It has caught up, perhaps: let it vote. */
  | { readonly do: "promote"; readonly id: bigint }
  /** A lost predecessor of this name or address, whose data is gone, makes room. */
  | { readonly do: "replace"; readonly old: StoreMember }
  | { readonly do: "join" }
  /** There are enough, or another one is just coming in. */
  | { readonly do: "stand-by" }
  /** Somebody took this member out while its data is still here. */
  | { readonly do: "set-aside" };

export interface Seen {
  readonly name: string;
  readonly peerUrl: string;
  readonly members: readonly StoreMember[];
  /** This machine has the data of a member. */
  readonly hasData: boolean;
  /** Its process runs. */
  readonly runs: boolean;
}

export function nextStep({ name, peerUrl, members, hasData, runs }: Seen): Step {
  const own = members.find(({ peerUrls }) => peerUrls.includes(peerUrl));
  if (hasData) {
    if (own !== undefined) return own.isLearner && runs ? { do: "promote", id: own.id } : { do: "nothing" };
    // A list may be older than our coming in; a member that was taken out ends by itself.
    return runs ? { do: "nothing" } : { do: "set-aside" };
  }
  const old = own ?? members.find((member) => member.name === name);
  if (old !== undefined) return { do: "replace", old };
  const isFull = members.length >= WANTED_MEMBERS || members.some(({ isLearner }) => isLearner);
  return { do: isFull ? "stand-by" : "join" };
}
