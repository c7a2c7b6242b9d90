// What backing up and restoring needs of the outside.

export interface Extent {
  readonly length: number;
  /** Known to read as zeroes. */
  readonly isZero: boolean;
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

export interface ImageRequest {
  readonly path: string;
  readonly format: string;
  readonly access: "ro" | "rw";
  /** How it stands back for others on the disk: 0 to 7 best effort, 8 only when nobody else wants it. */
  readonly ionice?: number;
}

export interface ArchiveHeader {
  readonly ctime: number;
  readonly configs: ReadonlyMap<string, Uint8Array>;
  readonly devices: readonly { readonly id: number; readonly name: string; readonly size: number }[];
}

export interface ArchiveCluster {
  readonly device: { readonly name: string };
  readonly offset: number;
  readonly data: Uint8Array;
  readonly isZero: boolean;
}

export interface ArchiveReader {
  readonly header: ArchiveHeader;
  clusters(): AsyncIterable<ArchiveCluster>;
}

export interface ArchiveWriter {
  cluster(device: number, cluster: number, data: Uint8Array): Promise<void>;
  zeroCluster(device: number, cluster: number): Promise<void>;
  /** The archive is whole and under its name only after this. */
  finish(): Promise<void>;
  abandon(): Promise<void>;
}

export interface BackupTools {
  /** Serves an image of a stopped VM while `use` runs. */
  withImage<T>(image: ImageRequest, use: (disk: DiskAccess) => Promise<T>): Promise<T>;
  /** A disk that a running QEMU exports. */
  openExport(socket: string, name: string): Promise<DiskAccess>;
  createArchive(path: string, compression: Compression, header: ArchiveHeader): Promise<ArchiveWriter>;
  openArchive(path: string): Promise<ArchiveReader>;
  writeSideFile(path: string, text: string): Promise<void>;
  /** An empty qcow2 of that size, for the blocks a guest overwrites while its backup runs. */
  createScratch(path: string, size: number): Promise<void>;
  /** One that is not there is no error. */
  removeFile(path: string): Promise<void>;
  fileSize(path: string): Promise<number>;
  isFolder(path: string): Promise<boolean>;
  isExecutable(path: string): Promise<boolean>;
  /** Names in a folder. */
  listFiles(folder: string): Promise<readonly string[]>;
  /** Throws when the script fails. */
  runHook(
    script: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    log: (line: string) => void,
  ): Promise<void>;
  /** Local time as in an archive's name. */
  civilTime(ms: number): {
    year: number;
    month: number;
    day: number;
    hour: number;
    minute: number;
    second: number;
  };
}

export type Compression = "none" | "zstd" | "gzip" | "lzo";

export const SUFFIX: Readonly<Record<Compression, string>> = {
  none: "",
  zstd: ".zst",
  gzip: ".gz",
  lzo: ".lzo",
};
