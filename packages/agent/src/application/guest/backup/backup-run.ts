// One vzdump task while it runs, and what a kind of guest does in it.
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import type { KeepOptions } from "@gpve/domain/storage/prune.ts";
import type { RunHook } from "./backup-hooks.ts";
import type { BackupArgs, BackupState, BackupWork, HeldGuest } from "./backup-request.ts";
import type { BackupTarget } from "./prune-old-backups.ts";

export interface BackupRun {
  readonly tools: BackupTools;
  readonly args: BackupArgs;
  readonly target: BackupTarget;
  readonly keep: KeepOptions;
  readonly hook: RunHook;
  /** Runs `work` while no operation has the guest; refuses at once where one has it locked. */
  readonly whileFree: <T>(vmid: number, work: () => Promise<T>) => Promise<T>;
  /** Names the guest in hand, from before anything is done to it. */
  readonly state: BackupState;
  readonly checkpoint: () => Promise<void>;
}

export interface GuestBackup {
  /** One guest into one archive; whatever goes wrong, it is as before and no half archive is left. */
  save(run: BackupRun, vmid: number, work: BackupWork): Promise<void>;
  /** After a crash: the guest in hand is put right. May run again. */
  release(held: HeldGuest, work: BackupWork): Promise<void>;
}
