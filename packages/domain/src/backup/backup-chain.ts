// Chains of backups: a full one, and incremental ones that each build on the one before. Every disk carries a dirty
// bitmap that is named after the last archive, so a bitmap says by itself since when it counts.

/** As large as an archive's cluster: finer tells nothing more. */
export const BITMAP_GRANULARITY = 65_536;
const BITMAP_PREFIX = "gpve-";
/** A restore reads all of a chain, and nothing of it can be pruned before its last one: it must end some day. */
export const MAX_CHAIN = 30;
/** VMs with this tag are backed up incrementally whoever asks: PVE's vzdump has no parameter for it. */
export const INCREMENTAL_TAG = "incremental-backup";

export interface ChainDisk {
  readonly volid: string;
  readonly size: number;
  /** Why its changes are not known. */
  readonly untracked?: string;
}

/** The last backup of a VM on a storage. */
export interface BackupChain {
  readonly uuid: string;
  /** File name of the archive. */
  readonly archive: string;
  /** How many archives it needs, itself included. */
  readonly length: number;
  /** By drive key. */
  readonly disks: Readonly<Record<string, ChainDisk>>;
}

/** What is known of a VM's chains, by storage: the last backup, or why it does not count any more. */
export type ChainState = BackupChain | { readonly dropped: string };
export type GuestChains = Readonly<Record<string, ChainState>>;

export interface BackupChains {
  get(vmid: number): GuestChains;
  set(vmid: number, storage: string, chain: BackupChain): Promise<void>;
  /** The next backups are full ones, and say this. */
  drop(vmid: number, why: string): Promise<void>;
  forget(vmid: number): Promise<void>;
}

export interface KnownBitmap {
  readonly name: string;
  readonly inconsistent: boolean;
  /** False: it has stopped to take changes. */
  readonly recording: boolean;
}

export interface DiskNow {
  readonly key: string;
  readonly volid: string;
  readonly size: number;
  readonly format: string;
  readonly bitmaps: readonly KnownBitmap[];
}

export type BackupPlan =
  | { readonly kind: "full"; readonly reason: string }
  | {
      readonly kind: "incremental";
      readonly parent: BackupChain;
      /** Keys of the disks that are saved whole. */
      readonly whole: ReadonlySet<string>;
    };

export function bitmapOf(uuid: string): string {
  return `${BITMAP_PREFIX}${uuid}`;
}

export function isOurBitmap(name: string): boolean {
  return name.startsWith(BITMAP_PREFIX);
}

export function isChain(state: ChainState | undefined): state is BackupChain {
  return state !== undefined && "uuid" in state;
}

/** Firmware variables and a TPM's state are tiny and mostly raw: they are saved whole every time. */
export function isAlwaysWhole(key: string): boolean {
  return key === "efidisk0" || key === "tpmstate0";
}

/** Whether the next backup can be incremental. Where anything is in doubt it is full. */
export function planBackup(state: ChainState | undefined, disks: readonly DiskNow[]): BackupPlan {
  const full = (reason: string): BackupPlan => ({ kind: "full", reason });
  if (state === undefined) return full("there is no earlier backup of this VM on this storage");
  if (!isChain(state)) return full(state.dropped);
  if (state.length >= MAX_CHAIN) return full(`the chain has ${state.length} backups already`);
  const whole = new Set<string>();
  for (const disk of disks) {
    const before = state.disks[disk.key];
    if (before === undefined || before.volid !== disk.volid || isAlwaysWhole(disk.key)) {
      whole.add(disk.key);
      continue;
    }
    const doubt = doubtAbout(disk, before, bitmapOf(state.uuid));
    if (doubt !== undefined) return full(doubt);
  }
  if (whole.size === disks.length) return full("no disk of the VM was in the last backup");
  return { kind: "incremental", parent: state, whole };
}

function doubtAbout(disk: DiskNow, before: ChainDisk, name: string): string | undefined {
  const bitmap = disk.bitmaps.find((each) => each.name === name);
  if (disk.size < before.size) return `disk '${disk.key}' is smaller than it was`;
  if (bitmap === undefined) {
    if (before.untracked !== undefined) return `disk '${disk.key}': ${before.untracked}`;
    return disk.format === "qcow2"
      ? `disk '${disk.key}' has no dirty bitmap of the last backup: QEMU was killed, or the image was replaced`
      : `disk '${disk.key}' is ${disk.format}: its changes are known only while the same QEMU process runs`;
  }
  if (bitmap.inconsistent)
    return `the dirty bitmap of disk '${disk.key}' is inconsistent: QEMU did not end as it should`;
  return bitmap.recording ? undefined : "an earlier backup was cut off";
}
