// What a control plane that goes to another node takes along, and how the two agents say it: by a line that is for that
// one move alone, as a server has noted it.
import type { GuestMove } from "../../guest/guest-move.ts";
import type { KeptCluster } from "../ports.ts";

/** A file of a cluster, named by where it belongs: "pki/ca.key", "db/state.db", "etcd/member/snap/db". */
export interface MovedFile {
  readonly name: string;
  readonly size: number;
  readonly body: AsyncIterable<Uint8Array>;
}

/** The node that has it. */
export interface ClusterLine {
  send(file: MovedFile): Promise<void>;
  /** Resolves when all of it lies at the other node, safe from a loss of power. */
  finish(): Promise<void>;
  close(): void;
}

export interface ClusterPeers {
  clusterLine(move: GuestMove, signal: AbortSignal): Promise<ClusterLine>;
}

/** The node that is to have it. */
export interface ClusterWriter {
  take(file: MovedFile): Promise<void>;
  finish(): Promise<void>;
  abandon(): Promise<void>;
}

export interface ClusterKeeper {
  /** Throws where nobody has announced it here. */
  begin(move: GuestMove): Promise<ClusterWriter>;
}

/** What was announced to the node that is to have it. */
export interface ClusterArrival {
  readonly moveId: string;
  /** What it is to be here. */
  readonly cluster: KeptCluster;
  /** What it was here before: workers alone. */
  readonly before?: KeptCluster;
}

/** Files of control planes that go and come, on this node. */
export interface ClusterLuggage extends ClusterKeeper {
  /** Keys and store of one whose processes have ended; what they are named by is opened when it is read. */
  pack(cluster: KeptCluster, signal: AbortSignal): Promise<readonly MovedFile[]>;
  announce(arrival: ClusterArrival): void;
  arrival(name: string): ClusterArrival | undefined;
  /** Whether all of it has come. */
  isWhole(name: string): boolean;
  /** Puts what has come where it belongs; done again it changes nothing. */
  unpack(cluster: KeptCluster): void;
  /** What was announced, and what has come of it. */
  forget(name: string): void;
}
