// What the cluster must know of a kind of guest: its words, and what lists show of its configuration.
import type { Amounts } from "../quota/amounts.ts";

export interface GuestSummary {
  readonly name: string;
  readonly cpus: number;
  readonly maxmem: number;
  readonly maxdisk: number;
  readonly template: boolean;
  readonly tags?: string;
  readonly lock?: string;
  /** It has a serial port. */
  readonly serial?: true;
  /** Bytes that ballooning leaves it, and its weight among those that are shrunk. */
  readonly balloon?: { readonly min: number; readonly shares: number };
}

/** Keys of the current section of a configuration. */
export type GuestKeys = ReadonlyMap<string, string>;

/** A volume as a backup sees it. */
export interface BackupVolume {
  readonly key: string;
  readonly volume: string;
  readonly included: boolean;
  readonly reason: string;
}

/** What a guest takes of its tenant's quota, and the tags it is counted by. */
export interface GuestClaim {
  readonly demand: Amounts;
  readonly tags: readonly string[];
}

/** Of a guest's record, what its claim is read from. */
export interface ClaimSource {
  readonly vmid: number;
  readonly conf: string;
  /** The current section of `conf`. */
  readonly keys: GuestKeys;
  readonly sizes?: Readonly<Record<string, number>>;
}

export interface GuestKind {
  /** As HA names it: the "vm" of vm:100. */
  readonly haType: string;
  /** As texts name one: "VM". */
  readonly noun: string;
  /** Where PVE keeps configurations of the kind, below nodes/NODE. */
  readonly configFolder: string;
  /** The key of its name, and what it is called without one. */
  readonly nameKey: string;
  readonly unnamed: (vmid: number) => string;
  readonly cpus: (keys: GuestKeys) => number;
  /** The key of the disk whose size lists show; undefined = it has none. */
  readonly mainDisk: (keys: GuestKeys) => string | undefined;
  /** What only this kind has in lists. */
  readonly more: (keys: GuestKeys) => Partial<GuestSummary>;
  /** What storages call the volumes it runs from. */
  readonly volumeContent: "images" | "rootdir";
  /** Which volumes a backup takes, and why. */
  readonly backupVolumes: (keys: GuestKeys) => readonly BackupVolume[];
  readonly claim: (guest: ClaimSource) => GuestClaim;
}
