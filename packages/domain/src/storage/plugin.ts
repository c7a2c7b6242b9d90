// What every storage backend must do. One plugin object serves one storage on one node. All sizes are bytes.
// A plugin never decides who may do something and never queues: operations do. Every method that allocates either
// returns the new volume or leaves nothing behind.
import type { ContentType, ImageFormat, VolumeType } from "./content.ts";
import type { DiskFormat, ImageLayer } from "./block-node.ts";
import type { VolumeName } from "./volume-name.ts";

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
  /** As the backend names it, see `own`; absent = the next free disk name. */
  readonly name?: string;
  readonly size: number;
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

/** A volume now, or as it was. */
export interface VolumeMoment {
  readonly snapshot?: string | undefined;
}

export interface ImportTarget {
  readonly vmid: number;
  readonly format: ImageFormat;
  readonly name?: string;
  readonly size?: number;
}

export interface OwnName {
  /** For `alloc`. */
  readonly name: string;
  readonly volname: string;
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
  /** How a volume of a guest is called here whose plain name is "vm-100-cloudinit". */
  own(vmid: number, plain: string, format: DiskFormat): OwnName;
  /** The format of a new disk: the wanted one where this storage has it, else the storage's own. */
  format(wanted?: string): DiskFormat;
  /** What people are shown as the place of a volume; it need not exist. */
  path(volname: string): string;
  /** The file of a medium or an archive to read; throws when it is a link that leads out of the storage, or is not there. */
  file(volname: string): Promise<string>;
  /** The folder that backups are written to; throws where the storage cannot hold any. */
  backupFolder(): string;
  /** The folder below which persistent volumes of virtual clusters lie; throws where the storage cannot hold any. */
  volumesFolder(): string;

  /** What QEMU opens once the volume is attached; its layers below are told by `attach`. */
  block(volname: string): ImageLayer;
  /**
   * Makes one volume usable on this node, cheap when it already is, and says what it is: an image with all that it builds
   * on, or a member of an OVA. Throws when the image names other files than our records do. New volumes are attached.
   */
  attach(volname: string, of?: VolumeMoment): Promise<ImageSource>;
  /** Nobody uses the volume any more, as far as the caller knows. Costs nothing where it need not be let go. */
  detach(volname: string, of?: VolumeMoment): Promise<void>;
  has(feature: StorageFeature, volname: string, of?: { readonly snapshot?: string }): boolean;

  alloc(request: AllocRequest, work?: StorageWork): Promise<string>;
  /** A volume that is not there is no error: false. */
  free(volname: string, work?: StorageWork): Promise<boolean>;
  list(filter?: { readonly content?: readonly ContentType[]; readonly vmid?: number }): Promise<VolumeInfo[]>;
  info(volname: string): Promise<VolumeSize>;
  resize(volname: string, size: number, work?: StorageWork): Promise<void>;

  /**
   * Who takes snapshots of a volume and grows it while a guest has it open: the QEMU of the guest in the image, or the
   * storage below it, whose new size QEMU is told then.
   */
  liveWork(volname: string): "qemu" | "storage";
  snapshot(volname: string, name: string, work?: StorageWork): Promise<void>;
  rollback(volname: string, name: string, work?: StorageWork): Promise<void>;
  deleteSnapshot(volname: string, name: string, work?: StorageWork): Promise<void>;
  snapshots(volname: string): Promise<StorageSnapshot[]>;

  /** The volume becomes read-only, under its new name. */
  createBase(volname: string, work?: StorageWork): Promise<string>;
  cloneLinked(volname: string, vmid: number, work?: StorageWork): Promise<string>;
  /** Gives the volume to another guest; without a name, the next free one. */
  rename(volname: string, vmid: number, name?: string): Promise<string>;
  /** A new volume with the content of an image, at least `size` bytes large. */
  importFrom(source: ImageSource, target: ImportTarget, work?: StorageWork): Promise<string>;
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
