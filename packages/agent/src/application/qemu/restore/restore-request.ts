// What a restore is asked to do, and what it must remember while it does it.
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/config/vm-config.ts";

export interface RestoreArgs {
  readonly vmid: number;
  /** Volume id of the archive, or a path of this node. */
  readonly archive: string;
  /** Where disks go; default: where they came from. */
  readonly storage?: string;
  readonly unique: boolean;
  /** A VM that is there already is replaced. */
  readonly force?: boolean;
  readonly start: boolean;
  /** The guest starts at once; what it has not got yet comes while it runs. */
  readonly live?: boolean;
  readonly pool?: string;
  /** The request that asked for it. */
  readonly madeBy?: string;
  /** KiB/s; 0 = no limit. */
  readonly bwlimit?: number;
  /** Take the place of what the archive says. */
  readonly overrides?: VmValues;
  /** Storages to look at for what an undo must remove. */
  readonly storages: readonly string[];
  /** Not root asks: what only root may set is not taken from the archive. */
  readonly limited?: boolean;
  /** Storages on which the actor may allocate; absent: on all. */
  readonly allowedStorages?: readonly string[];
  /** Where snippets may be named. */
  readonly ownedStorages?: readonly string[];
}

export interface RestoreState {
  /** Volumes of that id that were there before. */
  existing?: readonly string[];
  /** The VM that is replaced, as it was. */
  old?: VmConfig;
  /** Its machine, where that is no machine of PVE's. */
  oldMicrovm?: Microvm;
  /** Drive key -> volume. */
  volumes: Record<string, string>;
  /** The same for cloud-init drives, which no archive holds. */
  discs?: Record<string, string>;
  /** Its disks are whole; the configuration is about to name them. */
  isRestored?: boolean;
  /** QEMU is about to be started on disks that are not there yet. */
  isLive?: boolean;
}

export interface RestoreWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly warn: (line: string) => void;
  readonly progress: (fraction: number) => void;
  readonly checkpoint: () => Promise<void>;
}

/** What PVE puts before every reason. */
export function restoreRefused(vmid: number, why: string): string {
  return `unable to restore VM ${vmid} - ${why}`;
}
