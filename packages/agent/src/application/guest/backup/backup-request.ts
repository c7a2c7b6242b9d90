// What one vzdump task is asked to do, and what it must remember while it does it.
import type { Compression } from "@gpve/domain/backup/backup-ports.ts";
import type { KeepOptions } from "@gpve/domain/storage/prune.ts";

export type BackupMode = "snapshot" | "suspend" | "stop";

export interface BackupArgs {
  readonly vmids: readonly number[];
  /** Asked for, but on other nodes. */
  readonly skipped?: readonly number[];
  readonly commandLine: string;
  /** Where archives go: a storage, or a folder of this node. */
  readonly storage?: string;
  readonly dumpdir?: string;
  /** For what a guest overwrites while it is read: a folder, or a storage. */
  readonly tmpdir?: string;
  readonly fleecingStorage?: string;
  readonly mode: BackupMode;
  readonly compression: Compression;
  /** Only what changed since the last backup on this storage, where that is known. */
  readonly incremental?: boolean;
  readonly notesTemplate?: string;
  readonly cluster?: string;
  readonly isProtected: boolean;
  /** Protected backups a guest may have here; undefined = any number. */
  readonly maxProtected?: number;
  /** Absent: the storage's own rules, or all are kept. */
  readonly keep?: KeepOptions;
  readonly remove: boolean;
  /** KiB/s; 0 = no limit. */
  readonly bwlimit: number;
  /** 0 to 7 best effort, 8 idle. */
  readonly ionice: number;
  readonly script?: string;
  readonly lockwaitMinutes: number;
  readonly stopwaitMinutes: number;
  /** Milliseconds since 1970; absent = it waits for its turn however long that takes. */
  readonly submittedAt?: number;
}

/**
 * The guest in hand. Written down before anything is done to it, so that a restart can put it right; a kind of guest adds
 * what it must know for that.
 */
export interface HeldGuest {
  readonly vmid: number;
  /** The archive under its working name, with what belongs to it. */
  readonly leftovers: readonly string[];
}

export interface BackupState<Held extends HeldGuest = HeldGuest> {
  held?: Held;
}

export interface BackupWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly warn: (line: string) => void;
  readonly progress: (fraction: number) => void;
}
