// What a node does with one kind of guest: the row by which everything that any guest has is done for it. The table of
// them is node-kinds.ts, beside the composition.
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { ReplicaKeeper } from "@gpve/domain/replication/replica.ts";
import type { MoveReceiver } from "@gpve/domain/guest/move-channel.ts";
import type { OrderedGuests } from "./all-guests.ts";
import type { GuestBackup } from "./backup/backup-run.ts";
import type { EndWork, ProcessEndWork } from "./guest-end.ts";
import type { GuestSnapshots } from "./snapshot-operations.ts";
import type { GuestSampler } from "./watch-guests.ts";

/** Guests of a kind that come from other nodes. */
export interface GuestArrivals {
  has(move: GuestMove): boolean;
  readonly prepare: MoveReceiver["prepare"];
  readonly receive: MoveReceiver["receive"];
  readonly start: MoveReceiver["start"];
  readonly announce?: MoveReceiver["announce"];
  readonly socketOf: MoveReceiver["socketOf"];
}

export interface NodeKind {
  readonly type: GuestType;
  /** Who starts and stops with the node, and by which operations. */
  readonly ordered: OrderedGuests;
  readonly snapshots: GuestSnapshots;
  readonly backup: GuestBackup;
  /** Absent: they stay where they were made. */
  readonly arrivals?: GuestArrivals;
  /** Absent: no copies of them are kept. */
  readonly replicas?: ReplicaKeeper;
  readonly sampler: GuestSampler;
  /** What is put right when one has ended. */
  readonly atEnd: readonly EndWork[];
  /** The same when any process has, helpers included. */
  readonly atProcessEnd?: readonly ProcessEndWork[];
  /** Before anything that runs is looked for. */
  readonly prepare?: () => Promise<void>;
  /** Processes of all kinds that ran before this agent did. */
  readonly adopted?: (running: readonly GuestProcess[]) => Promise<void>;
  /** Whatever it keeps doing until the signal fires. */
  readonly run?: (signal: AbortSignal) => Promise<void>;
  readonly close?: () => void;
}
