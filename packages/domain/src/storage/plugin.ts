// What every storage backend must do. One plugin object serves one storage on one node. All sizes are bytes.
// A plugin never decides who may do something and never queues: operations do. Every method that allocates either
// returns the new volume or leaves nothing behind.
import type { ContentType, ImageFormat, VolumeType } from "./content.ts";
import type { DirVolume } from "./dir-volume.ts";

/** What a volume's name says. */
export type VolumeName = DirVolume;

export interface StorageWork {
  readonly signal?: AbortSignal;
  readonly log?: (line: string) => void;
  /** 0 to 1. */
  readonly progress?: (fraction: number) => void;
  /** Copies go no faster. */
  readonly bytesPerSecond?: number;
}

export interface StorageStatus {
  readonly active: boolean;
  readonly total: number;
  readonly used: number;
  readonly avail: number;
}

export interface VolumeSize {
  readonly size: number;
  /** Bytes really taken. */
  readonly used: number;
  readonly format: string;
  /** As stored in the image: "../9000/base-9000-disk-0.qcow2". */
  readonly parent?: string;
}

export interface VolumeInfo extends VolumeSize {
  readonly volname: string;
  readonly content: VolumeType;
  readonly vmid?: number;
  /** Seconds since 1970. */
  readonly ctime: number;
  readonly notes?: string;
  readonly protected?: boolean;
  /** Of backups: "qemu", "lxc", … */
  readonly subtype?: string;
}

export interface AllocRequest {
  readonly vmid: number;
  readonly format: ImageFormat;
  /** File name or volume name as the backend has it; absent = the next free disk name. */
  readonly name?: string;
  readonly size: number;
}

/** Where QEMU finds the bytes of a volume. */
export interface BlockDescription {
  readonly driver: "file" | "host_device";
  readonly filename: string;
  readonly format: "raw" | "qcow2" | "vmdk";
}

export interface ImageLayer {
  readonly path: string;
  readonly format: "raw" | "qcow2" | "vmdk";
}

export interface ImageSource extends ImageLayer {
  /** Images below it, nearest first, as our records have them. What an image says of others is never followed. */
  readonly backing?: readonly ImageLayer[];
  /** Upload, download, file of the host: is looked at as a whole before anything is made of it. */
  readonly fromOutside: boolean;
  /** Read as it was in this internal snapshot. */
  readonly snapshot?: string;
  /** The image is only this part of the file: a member of an archive. */
  readonly region?: { readonly offset: number; readonly size: number };
}

export type StorageFeature =
  | "snapshot"
  | "clone"
  | "copy"
  | "template"
  | "sparseinit"
  | "resize"
  | "rename"
  | "replicate";

export interface StorageSnapshot {
  readonly name: string;
  /** Seconds since 1970. */
  readonly ctime: number;
}

export interface VolumeStream {
  readonly format: ImageFormat;
  readonly size: number;
  readonly body: AsyncIterable<Uint8Array>;
}

export interface StoragePlugin {
  readonly storage: string;
  readonly type: string;

  /** Makes the storage usable on this node; cheap when it already is. */
  activate(work?: StorageWork): Promise<void>;
  deactivate(): Promise<void>;
  status(): Promise<StorageStatus>;

  /** Throws on names this backend cannot have. */
  parse(volname: string): VolumeName;
  /** Path on this node; the file need not exist. What is read is asked for by `file`. */
  path(volname: string): string;
  /** The file to read; throws when it is a link that leads out of the storage, or is not there. */
  file(volname: string): Promise<string>;
  block(volname: string): BlockDescription;
  /**
   * An image to read: a volume with all that it builds on, or a member of an OVA. Throws when the image names other files
   * than our records do.
   */
  source(volname: string, of?: { readonly snapshot?: string | undefined }): Promise<ImageSource>;
  has(feature: StorageFeature, volname: string, of?: { readonly snapshot?: string }): boolean;

  alloc(request: AllocRequest, work?: StorageWork): Promise<string>;
  /** A volume that is not there is no error: false. */
  free(volname: string, work?: StorageWork): Promise<boolean>;
  list(filter?: { readonly content?: readonly ContentType[]; readonly vmid?: number }): Promise<VolumeInfo[]>;
  info(volname: string): Promise<VolumeSize>;
  resize(volname: string, size: number, work?: StorageWork): Promise<void>;

  /** Offline; while a guest runs, its QEMU makes them. */
  snapshot(volname: string, name: string, work?: StorageWork): Promise<void>;
  rollback(volname: string, name: string, work?: StorageWork): Promise<void>;
  deleteSnapshot(volname: string, name: string, work?: StorageWork): Promise<void>;
  snapshots(volname: string): Promise<StorageSnapshot[]>;

  /** The volume becomes read-only, under its new name. */
  createBase(volname: string, work?: StorageWork): Promise<string>;
  cloneLinked(volname: string, vmid: number, work?: StorageWork): Promise<string>;
  /** Gives the volume to another guest; without a name, the next free one. */
  rename(volname: string, vmid: number, name?: string): Promise<string>;
  /** A new volume with the content of an image file, at least `size` bytes large. */
  importFrom(
    source: ImageSource,
    target: {
      readonly vmid: number;
      readonly format: ImageFormat;
      readonly name?: string;
      readonly size?: number;
    },
    work?: StorageWork,
  ): Promise<string>;
  exportStream(volname: string): Promise<VolumeStream>;
  importStream(
    stream: VolumeStream,
    target: { readonly vmid: number; readonly name?: string },
    work?: StorageWork,
  ): Promise<string>;

  notes(volname: string): Promise<string>;
  setNotes(volname: string, notes: string): Promise<void>;
  isProtected(volname: string): Promise<boolean>;
  setProtected(volname: string, on: boolean): Promise<void>;
}

/** Called for every file a plugin made for a guest, so that it can be given to the guest's own user. */
export type VolumeOwnership = (path: string, vmid: number) => Promise<void> | void;
