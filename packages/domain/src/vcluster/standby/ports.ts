// What the work on standbys needs of a node.
import type { GuestMove } from "../../guest/guest-move.ts";
import type { ClusterCore } from "../ports.ts";
import type { StandbyRuntime } from "../vcluster-runtime.ts";

/** A standby as its node keeps it. */
export interface KeptStandby extends ClusterCore {
  readonly generation: number;
  /** What signs for the cluster, and what it has encrypted its secrets with. */
  readonly secrets: Readonly<Record<string, string>>;
}

export interface LeadWish {
  readonly generation: number;
  readonly mode: "stream" | "solo";
  readonly boundMs: number;
}

/** A socket of the process that has the stores. */
export interface LineEnd {
  readonly path: string;
  readonly ownerUid: number;
}

export interface StandbyHost {
  /** How the store of a cluster of this node goes with its standby. Refuses what is older than what was said before. */
  lead(name: string, wish: LeadWish): void;
  /** undefined = nobody follows it, or its store is closed. */
  state(name: string): StandbyRuntime | undefined;
  /** Stores of this node that want a line to their standby now. */
  wantedLines(): readonly { readonly name: string; readonly generation: number }[];
  /** The end of the line at the store of a cluster of this node. */
  leadEnd(name: string): LineEnd;
  /** And at the standby of another node's. Throws where it is not followed here. */
  followEnd(name: string): LineEnd;

  /** Starts the process of the stores again where it has ended and one is served or followed; whether it had to. */
  keepProcess(): Promise<boolean>;

  list(): readonly KeptStandby[];
  get(name: string): KeptStandby | undefined;
  save(standby: KeptStandby): void;
  /** Its database follows from now on; the process that does it runs. */
  follow(name: string): Promise<void>;
  /** Resolves when nobody has its database open. */
  unfollow(name: string): Promise<void>;
  /** Of one that is not followed any more: its database becomes the store of a cluster of this node. */
  adopt(name: string): void;
  /** Nothing of it is left. */
  remove(name: string): Promise<void>;
}

/** Lines to other nodes. */
export interface StandbyPeers {
  /** Joins the two ends; resolves when either is gone. */
  standbyLine(move: GuestMove, end: LineEnd, signal: AbortSignal): Promise<void>;
}

/** Takes lines from other nodes. */
export interface StandbyKeeper {
  followEnd(name: string): LineEnd;
}
