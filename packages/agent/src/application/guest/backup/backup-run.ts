// One vzdump task while it runs, and what a kind of guest does in it.
import type { BackupArchives, CivilClock, NodeFiles } from "@gpve/domain/backup/backup-ports.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import type { KeepOptions } from "@gpve/domain/storage/prune.ts";
import type { RunHook } from "./backup-hooks.ts";
import type { BackupArgs, BackupMode, BackupState, BackupWork, HeldGuest } from "./backup-request.ts";
import type { BackupTarget } from "./prune-old-backups.ts";

export interface BackupRun<Held extends HeldGuest = HeldGuest> {
  readonly tools: NodeFiles & BackupArchives & CivilClock;
  readonly args: BackupArgs;
  readonly target: BackupTarget;
  readonly keep: KeepOptions;
  readonly hook: RunHook;
  /** Runs `work` while no operation has the guest; refuses at once where one has it locked. */
  readonly whileFree: <T>(vmid: number, work: () => Promise<T>) => Promise<T>;
  /** Names the guest in hand, from before anything is done to it. */
  readonly state: BackupState<Held>;
  readonly checkpoint: () => Promise<void>;
}

/** One guest of the task, and its archive. */
export interface BackupStep<Held extends HeldGuest = HeldGuest> extends BackupRun<Held> {
  readonly vmid: number;
  /** "stop" once it is known that the guest does not run. */
  mode: BackupMode;
  /** The archive's path without its extension. */
  readonly base: string;
  /** With it, once it is known. */
  path: string;
  /** Tells the hook script. */
  readonly phase: (name: string) => Promise<void>;
  /** The archive is complete: notes, protection, and what has to go for it. */
  readonly keepArchive: () => Promise<void>;
}

export interface GuestBackup<Held extends HeldGuest = HeldGuest> {
  readonly type: GuestType;
  readonly configs: { readonly node: string; has(vmid: number): boolean };
  /** As notes and hook scripts are told. */
  nameOf(vmid: number): string;
  /** The extension an archive has while nothing else is known. */
  extension(args: BackupArgs): string;
  /** One guest into one archive; whatever goes wrong, it is as before and no half archive is left. */
  save(step: BackupStep<Held>, work: BackupWork): Promise<void>;
  /** After a crash: the guest in hand is put right. May run again. */
  release(held: Held, work: BackupWork): Promise<void>;
}
