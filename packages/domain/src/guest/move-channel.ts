// What the two agents of a move say to each other. Only for that move: a server's note names both by their certificates.
import type { GuestMove } from "./guest-move.ts";
import type { GuestType } from "./guest-kinds.ts";
import type { ReplicaKeeper } from "../replication/replica.ts";
import type { ClusterKeeper } from "../vcluster/move/cluster-moves.ts";
import type { VolumeSource } from "../vcluster/backup/cluster-volumes.ts";
import type { StandbyKeeper } from "../vcluster/standby/ports.ts";
import type { GuestProcess } from "./guest-processes.ts";
import type { DirectPlace, RamWay, TakenRam } from "../vm/migrate/direct-line.ts";
import type { WantedTransfer } from "../vm/migrate/ram-transfer.ts";

/** What the owner of a guest tells the node that is to take it. */
export interface MoveOffer {
  readonly type: GuestType;
  /** The whole configuration, as the new owner has it later. */
  readonly conf: string;
  readonly microvm?: { readonly kernel: string; readonly initrd?: string; readonly cmdline?: string };
  readonly isRunning: boolean;
  /** It runs, and stands still. */
  readonly isPaused?: boolean;
  /** What its process is, where the new one must be the same: QEMU's machine and CPU. */
  readonly machine?: string;
  readonly cpu?: string;
  readonly volumes: readonly OfferedVolume[];
}

/** A volume that only the owner has, and that is to be made anew. */
export interface OfferedVolume {
  readonly volid: string;
  readonly key: string;
  /** Where it is to go. */
  readonly storage: string;
  readonly format: string;
  readonly bytes: number;
  /** The guest has it open: its blocks come while it runs. */
  readonly isLive: boolean;
}

export interface MoveAnswer {
  /** Names of new volumes, by those of the old ones. */
  readonly volumes: Readonly<Record<string, string>>;
  /** It can be told to announce the guest. */
  readonly announces?: true;
}

/** One end's line to the other. */
export interface MovePeer {
  /** Volumes of the guest may be sent from now on. */
  prepare(offer: MoveOffer, signal: AbortSignal): Promise<MoveAnswer>;
  /** A volume that nobody has open, as it is now; its name there. */
  send(volid: string, source: MoveSource, work: MoveWork): Promise<string>;
  /** Its process waits for what is sent now, and how that is to come. `key`: by what QEMU could encrypt it itself. */
  start(
    signal: AbortSignal,
    wanted?: WantedTransfer,
    key?: string,
    /** Where its line is waited for, told as soon as that is known: before its process is there. Not by all versions. */
    onPlace?: (place: DirectPlace) => void,
  ): Promise<RamWay>;
  /** A unix socket of this host: what the guest sends there arrives at what the other end serves by that name. */
  forward(process: GuestProcess, channel: string): Promise<ForwardedSocket>;
  /** The same for its RAM, by a line of its own. Rejects where there is no way to that place. */
  forwardDirect?(process: GuestProcess, place: DirectPlace): Promise<ForwardedSocket>;
  /**
   * The guest stands still here: switches are told there where its cards will be. What comes for it meanwhile waits there
   * for it, an acknowledgement of what it sent last above all, which it would wait for in vain after it has gone on.
   * undefined = the other end cannot.
   */
  announce?(): void;
  /** Fires when the other end is gone, or has given up. */
  readonly lost: AbortSignal;
  close(): void;
}

export interface MoveWork {
  readonly signal: AbortSignal;
  readonly progress: (fraction: number) => void;
  readonly bytesPerSecond?: number | undefined;
}

/** The bytes of a volume. */
export interface MoveSource {
  readonly format: string;
  readonly size: number;
  readonly body: AsyncIterable<Uint8Array>;
}

export interface ForwardedSocket {
  readonly path: string;
  /** From now on the guest may send so much; if it sends more, it is hung up on. */
  allow(bytes: number): void;
  /** The guest stands still for what is under way. Where others carry it, it is no slower than it can be. */
  hurry?(): void;
  /** It was hung up on for that. */
  readonly isExceeded: boolean;
  close(): Promise<void>;
}

/** Of QEMUs, for one move each. */
export interface MoveKeys {
  newKey(): string;
  /** Where the guest's QEMU, and nobody else, reads it, and as whose. */
  place(process: GuestProcess, key: string): Promise<{ readonly folder: string; readonly user: string }>;
  /** Also where there is none, or one of before a crash. */
  remove(id: string, process?: GuestProcess): Promise<void>;
}

export interface MovePeers {
  connect(move: GuestMove, signal: AbortSignal): Promise<MovePeer>;
}

/** The node that is to take a guest, as its door sees it. */
export interface MoveReceiver {
  /** undefined = no server has allowed it. */
  find(vmid: number, moveId: string): Promise<GuestMove | undefined>;
  /** `gone` fires when who offers it is gone. Resolves when its volumes may be sent. */
  prepare(move: GuestMove, offer: MoveOffer, gone: AbortSignal): Promise<MoveAnswer>;
  /** Makes a volume for it; its name. */
  receive(move: GuestMove, volid: string, source: MoveSource): Promise<string>;
  /** All its volumes are here: its process is to wait for the rest. What it takes of what is wanted and offered. */
  start(move: GuestMove, wanted?: WantedTransfer, key?: string): Promise<TakenRam>;
  /** The guest stands still where it was: whoever sends it something is to send it here. */
  announce?(move: GuestMove): Promise<void>;
  /** Takes copies of guests that stay where they are. */
  readonly replicas?: ReplicaKeeper | undefined;
  /** Takes control planes of virtual clusters. */
  readonly clusters?: ClusterKeeper | undefined;
  /** Follows their stores. */
  readonly standbys?: StandbyKeeper | undefined;
  /** Gives volumes of their workers for a backup. */
  readonly volumes?: VolumeSource | undefined;
  /** A unix socket that the guest serves; that of its RAM also before it does. */
  socketOf(move: GuestMove, channel: string): { readonly path: string; readonly ownerUid?: number };
}
