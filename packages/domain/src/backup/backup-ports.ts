// What backing up and restoring needs of the outside.
import type { ImageLayer } from "../storage/block-node.ts";

export interface Extent {
  readonly length: number;
  /** Known to read as zeroes. */
  readonly isZero: boolean;
}

export interface ChangedExtent {
  readonly length: number;
  readonly isDirty: boolean;
}

/** A disk's content, whatever its format. */
export interface DiskAccess {
  readonly size: number;
  read(offset: number, length: number): Promise<Uint8Array>;
  write(offset: number, data: Uint8Array): Promise<void>;
  writeZeroes(offset: number, length: number): Promise<void>;
  flush(): Promise<void>;
  extents(offset: number, length: number): Promise<readonly Extent[]>;
  close(): void;
}

/** A disk that was opened with one of its dirty bitmaps. */
export interface TrackedDisk extends DiskAccess {
  /** What the bitmap holds, from `offset` on; at least one extent. */
  changes(offset: number, length: number): Promise<readonly ChangedExtent[]>;
}

/** What archives count disks in. */
export const CLUSTER_BYTES = 65_536;

export interface WantedImage extends ImageLayer {
  /** Images below it, nearest first, as our records have them. */
  readonly backing?: readonly ImageLayer[];
  readonly access: "ro" | "rw";
  /** How it stands back for others on the disk: 0 to 7 best effort, 8 only when nobody else wants it. */
  readonly ionice?: number;
}

/** Where a running QEMU offers its disks. */
export interface ExportPlace {
  readonly socket: string;
  /** The user QEMU runs as, who made the socket. */
  readonly ownerUid?: number | undefined;
}

export interface ArchiveHeader {
  /** 32 hex digits: what an incremental backup knows its parent by. A writer without one makes one up. */
  readonly uuid?: string;
  readonly ctime: number;
  readonly configs: ReadonlyMap<string, Uint8Array>;
  readonly devices: readonly { readonly id: number; readonly name: string; readonly size: number }[];
}

export interface ArchiveCluster {
  readonly device: { readonly name: string };
  readonly offset: number;
  readonly data: Uint8Array;
  readonly isZero: boolean;
  /** There may be older content under it. */
  readonly overwrites?: boolean;
}

export interface ArchiveReader {
  readonly header: ArchiveHeader;
  clusters(): AsyncIterable<ArchiveCluster>;
  /** For those who want the header alone. */
  close(): Promise<void>;
}

export interface ArchiveWriter {
  cluster(device: number, cluster: number, data: Uint8Array): Promise<void>;
  zeroCluster(device: number, cluster: number): Promise<void>;
  /** The archive is whole and under its name only after this. */
  finish(): Promise<void>;
  abandon(): Promise<void>;
}

export interface ServeArchiveRequest {
  readonly reader: ArchiveReader;
  /** Device -> an empty file of its size. */
  readonly spool: ReadonlyMap<string, string>;
  /** Where an NBD server offers the disks, read-only, each under its device's name. */
  readonly socket: string;
  /** What was read once does not change any more: the archive builds on no other. */
  readonly isFinal: boolean;
  /** Resolves when more may be read. */
  readonly pace: (bytes: number) => Promise<void>;
}

/** Disks that can be read while their archive is still being unpacked: reads wait. */
export interface ArchiveServer {
  /** Resolves when the archive was read to its end and is whole. */
  readonly whole: Promise<void>;
  read(device: string, offset: number, length: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Reads and writes disks, whoever has them. */
export interface OpenDisks {
  /** Serves an image of a stopped VM while `use` runs. */
  withImage<T>(image: WantedImage, use: (disk: DiskAccess) => Promise<T>): Promise<T>;
  /** A disk that a running QEMU exports. */
  openExport(at: ExportPlace, name: string): Promise<DiskAccess>;
  /** The same with a dirty bitmap of the image or of the export. */
  withTrackedImage<T>(
    image: WantedImage & { readonly bitmap: string },
    use: (disk: TrackedDisk) => Promise<T>,
  ): Promise<T>;
  openTrackedExport(at: ExportPlace, name: string, bitmap: string): Promise<TrackedDisk>;
}

/** Dirty bitmaps of images. */
export interface ImageBitmaps {
  /** Of a qcow2 image that nobody has open. */
  imageBitmaps(path: string): Promise<readonly ImageBitmap[]>;
  addImageBitmap(path: string, name: string): Promise<void>;
  removeImageBitmap(path: string, name: string): Promise<void>;
}

/** What backups are kept in. */
export interface BackupArchives {
  createArchive(path: string, compression: Compression, header: ArchiveHeader): Promise<ArchiveWriter>;
  openArchive(path: string): Promise<ArchiveReader>;
  createIncremental(path: string, header: IncrementalHeader): Promise<ChangesWriter>;
  openIncremental(path: string): Promise<IncrementalReader>;
}

/** Guests that run before their archive is unpacked. */
export interface ArchiveServers {
  serveArchive(request: ServeArchiveRequest): Promise<ArchiveServer>;
  /** A path for a socket that is not in use. */
  socketPath(name: string): string;
}

/** Files of this node: archives, what lies beside them, and scratch. */
export interface NodeFiles {
  /** Without links. */
  realFile(path: string): Promise<string>;
  writeSideFile(path: string, text: string): Promise<void>;
  /** An empty qcow2 of that size, for the blocks a guest overwrites while its backup runs. */
  createScratch(path: string, size: number): Promise<void>;
  /** One that is not there is no error. */
  removeFile(path: string): Promise<void>;
  fileSize(path: string): Promise<number>;
  isFolder(path: string): Promise<boolean>;
  /** Names in a folder. */
  listFiles(folder: string): Promise<readonly string[]>;
}

/** Scripts of the operator. */
export interface BackupHooks {
  isExecutable(path: string): Promise<boolean>;
  /** Throws when the script fails. */
  runHook(
    script: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    log: (line: string) => void,
  ): Promise<void>;
}

/** The time that archives are named by. */
export interface CivilClock {
  /** Local time as in an archive's name. */
  localMoment(ms: number): {
    year: number;
    month: number;
    day: number;
    hour: number;
    minute: number;
    second: number;
  };
}

/** All of it, for whoever provides it; a use case names those it needs. */
export interface BackupTools
  extends OpenDisks, ImageBitmaps, BackupArchives, ArchiveServers, NodeFiles, BackupHooks, CivilClock {}

/** Dirty bitmaps inside an image that no QEMU has open. */
export interface ImageBitmap {
  readonly name: string;
  /** Not closed as it should be: what it says is not to be trusted. */
  readonly inconsistent: boolean;
  /** false: it took no changes any more when the image was closed. */
  readonly recording: boolean;
}

export interface IncrementalDevice {
  /** "drive-scsi0" */
  readonly name: string;
  readonly size: number;
  /** All of the disk is in this archive; nothing of the parent's counts. */
  readonly whole: boolean;
}

export interface ParentArchive {
  /** File name, in the same directory. */
  readonly name: string;
  readonly uuid: string;
}

export interface IncrementalHeader {
  readonly uuid: string;
  /** Seconds since 1970. */
  readonly ctime: number;
  readonly parent: ParentArchive;
  readonly configs: ReadonlyMap<string, Uint8Array>;
  readonly devices: readonly IncrementalDevice[];
}

export interface IncrementalExtent {
  /** Index in the header's devices. */
  readonly device: number;
  readonly offset: number;
  readonly length: number;
  /** undefined = zeroes. */
  readonly data: Uint8Array | undefined;
}

export interface IncrementalReader {
  readonly header: IncrementalHeader;
  /** Throws on anything that is not as it was written; ends only when the archive is whole. */
  extents(): AsyncIterable<IncrementalExtent>;
  /** For those who want the header alone. */
  close(): Promise<void>;
}

/** Takes what changed of disks; what was written counts only after `finish`. */
export interface ChangesWriter {
  data(device: number, offset: number, data: Uint8Array): Promise<void>;
  zeroes(device: number, offset: number, length: number): Promise<void>;
  finish(): Promise<void>;
  abandon(): Promise<void>;
}

export type Compression = "none" | "zstd" | "gzip" | "lzo";

export const SUFFIX: Readonly<Record<Compression, string>> = {
  none: "",
  zstd: ".zst",
  gzip: ".gz",
  lzo: ".lzo",
};
