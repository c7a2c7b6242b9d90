// What the work on standbys needs of a node.
import type { GuestMove } from "../../guest/guest-move.ts";
import type { DirectPlace } from "../../vm/migrate/direct-line.ts";
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
  /** Whoever serves it outlives the agent, and so may the line. */
  readonly isLasting?: true;
}

export interface StandbyHost {
  /** How the store of a cluster of this node goes with its standby. Refuses what is older than what was said before. */
  lead(name: string, wish: LeadWish): void;
  /** undefined = nobody follows it, or its store is closed. */
  state(name: string): StandbyRuntime | undefined;
  /** Stores of this node that want a line to their standby now. */
  wantedLines(): readonly { readonly name: string; readonly generation: number }[];
  /** Whether any store of this node has been told of a standby, also of clusters that sleep. */
  hasLeads(): boolean;
  /** Whether the store that it follows has been heard of in the last seconds. */
  isFed(name: string): boolean;
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
  /** Where the other node waits for a line that lasts. Rejects where it does not. */
  standbyPlace(move: GuestMove, signal: AbortSignal): Promise<DirectPlace>;
}

/** Takes lines from other nodes. */
export interface StandbyKeeper {
  followEnd(name: string): LineEnd;
  /** `address`: of this host, by which the other node reaches it. */
  followPlace(name: string, address: string): Promise<DirectPlace>;
}

/** One that was asked for at the other node, which is told by its name there. */
export interface LastingLine {
  /** As standbyLineId has it. */
  readonly id: string;
  readonly address: string;
  readonly place: DirectPlace;
  readonly end: LineEnd;
}

/** Lines that a process keeps which outlives the agent: they are open, and are opened again, also while no agent is there. */
export interface LastingLines {
  /** Finds the process where it runs. */
  adopt(): Promise<void>;
  /** Those that were opened here, whether they are open now or not. */
  opened(): readonly string[];
  /** Whether it is open now. Rejects where a process has it that cannot be spoken to. */
  isOpen(id: string): Promise<boolean>;
  /** Rejects where nobody takes it there; then there is none. */
  open(line: LastingLine): Promise<void>;
  /** Resolves when it is not open any more, or nobody knows. */
  whileOpen(id: string, signal: AbortSignal): Promise<void>;
  close(id: string): void;

  /** Where whoever knows the secret is led to that end. A place of that name before is none any more. */
  place(id: string, address: string, end: LineEnd): Promise<DirectPlace>;
  /** There are no places but these. */
  keepPlaces(ids: readonly string[]): void;

  /** Nobody wants any: ends the process. */
  endIfIdle(): Promise<void>;
}
