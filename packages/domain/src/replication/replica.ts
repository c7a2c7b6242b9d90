// A copy of a VM's local disks on another node: what is told of it between the two agents, and what is kept beside it.
import type { ChangesWriter } from "../backup/backup-ports.ts";
import type { GuestMove } from "../guest/guest-move.ts";

export interface ReplicaDisk {
  /** "scsi0" */
  readonly key: string;
  /** At the VM's node. */
  readonly volid: string;
  readonly storage: string;
  readonly format: string;
  readonly bytes: number;
  /** All of it comes, and nothing of an older copy counts. */
  readonly isWhole: boolean;
}

/** What is about to be sent. */
export interface ReplicaOffer {
  readonly vmid: number;
  /** "100-0" */
  readonly job: string;
  /** 32 hex digits: the name of this state of the disks. */
  readonly generation: string;
  /** The state that it builds on; absent = on none. */
  readonly base?: string;
  /** Seconds: when the disks were so. */
  readonly at: number;
  readonly disks: readonly ReplicaDisk[];
  /** Volumes of the target that may be overwritten though they are no copy. */
  readonly replaces?: readonly string[];
}

/** A copy that is whole. */
export interface Replica {
  readonly vmid: number;
  readonly job: string;
  readonly generation: string;
  readonly at: number;
  /** The VM's node when it was made. */
  readonly from: string;
  readonly volumes: readonly ReplicaVolume[];
}

export interface ReplicaVolume {
  readonly key: string;
  /** At the VM's node. */
  readonly source: string;
  /** Here. */
  readonly volid: string;
  readonly bytes: number;
}

/** The node that keeps copies, as others reach it. */
export interface ReplicaKeeper {
  /** undefined = there is none. */
  state(vmid: number): Promise<Replica | undefined>;
  begin(offer: ReplicaOffer, from: string): Promise<ChangesWriter>;
}

/** One end's line to the keeper. */
export interface ReplicaLine {
  state(): Promise<Replica | undefined>;
  begin(offer: ReplicaOffer): Promise<void>;
  readonly writer: ChangesWriter;
  /** Bytes that went over it. */
  readonly sent: number;
  close(): void;
}

/** Ways to nodes that keep copies. */
export interface ReplicaPeers {
  replicaLine(move: GuestMove, work: ReplicaWork): Promise<ReplicaLine>;
}

export interface ReplicaWork {
  readonly signal: AbortSignal;
  readonly bytesPerSecond?: number | undefined;
}

/** Where it is written down which copies a node keeps. */
export interface ReplicaNotes {
  get(vmid: number): Replica | undefined;
  set(replica: Replica): void;
  remove(vmid: number): void;
  /** Where a delivery is written to until it is whole. */
  delivery(vmid: number): string;
  /** There is one that is whole. */
  hasDelivery(vmid: number): boolean;
}
