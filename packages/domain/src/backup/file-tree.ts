// Files inside a backed-up disk, and what reading them needs of the outside.

/** Bytes at any place; nothing it holds is believed. */
export interface RandomAccess {
  readonly size: number;
  /** Shorter only at the end. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

export type FileKind = "d" | "f" | "l" | "b" | "c" | "p" | "s";

export interface TreeFile {
  readonly name: string;
  readonly kind: FileKind;
  readonly size: number;
  /** Seconds since 1970. */
  readonly mtime: number;
  /** Permission bits. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

export interface FileTree {
  /** "ext4", "vfat" */
  readonly type: string;
  /** Throws when it is not there or no directory. */
  list(path: readonly string[]): Promise<readonly TreeFile[]>;
  find(path: readonly string[]): Promise<TreeFile>;
  read(path: readonly string[]): AsyncIterable<Uint8Array>;
  /** Where a symbolic link points to. */
  target(path: readonly string[]): Promise<string>;
}

export interface Partition {
  readonly number: number;
  readonly offset: number;
  readonly size: number;
}

export interface DiskFormats {
  /** undefined = there is no partition table. */
  partitions(disk: RandomAccess): Promise<readonly Partition[] | undefined>;
  /** Throws and says what it is when it can be told, but not read. */
  openTree(disk: RandomAccess): Promise<FileTree>;
}

/** A disk of an archive, put where it can be read at any place. */
export interface DiskSpool {
  /** `fill` runs once for a key; whoever comes while it runs waits for a moment and is then told to come again. */
  open(
    key: string,
    size: number,
    fill: (write: (offset: number, data: Uint8Array) => Promise<void>, signal: AbortSignal) => Promise<void>,
  ): Promise<RandomAccess>;
}

export type PackFormat = "zip" | "tar.zst";

/** Many files as one stream. */
export type PackFiles = (format: PackFormat, files: AsyncIterable<PackedEntry>) => AsyncIterable<Uint8Array>;

export interface PackedEntry {
  /** "etc/hostname" */
  readonly path: string;
  readonly file: TreeFile;
  /** Of symbolic links. */
  readonly target?: string;
  readonly body?: AsyncIterable<Uint8Array>;
}
