// FAT12, FAT16 and FAT32 with long names, read only; every number is checked.
import { refused } from "@gpve/domain/request/failures.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import type { FileTree, RandomAccess, TreeFile } from "@gpve/domain/backup/file-tree.ts";
import { readWhole } from "./read-whole.ts";
import { noSuchFile, notADirectory } from "./tree-failures.ts";

interface FatEntry extends TreeFile {
  readonly cluster: number;
}

const ENTRY = 32;
const MAX_DIRECTORY_BYTES = 16 * 1024 * 1024;
/** 255 characters, 13 in each. */
const MAX_LONG_PARTS = 20;
const LAST = { 12: 0xff8, 16: 0xfff8, 32: 0x0fff_fff8 } as const;

interface Geometry {
  readonly bits: 12 | 16 | 32;
  readonly clusterBytes: number;
  readonly clusters: number;
  readonly fatAt: number;
  readonly dataAt: number;
  readonly rootAt: number;
  readonly rootBytes: number;
  readonly rootCluster: number;
}

export class FatTree implements FileTree {
  readonly type = "vfat";
  readonly #disk: RandomAccess;
  readonly #shape: Geometry;

  private constructor(disk: RandomAccess, shape: Geometry) {
    this.#disk = disk;
    this.#shape = shape;
  }

  /** undefined = it is something else. */
  static async open(disk: RandomAccess): Promise<FatTree | undefined> {
    const sector = Buffer.from(await disk.read(0, 512));
    const shape = sector.length < 512 ? undefined : geometryOf(sector, disk.size);
    return shape === undefined ? undefined : new FatTree(disk, shape);
  }

  async list(path: readonly string[]): Promise<readonly TreeFile[]> {
    return this.#entries(await this.#resolve(path), path);
  }

  async find(path: readonly string[]): Promise<TreeFile> {
    return this.#resolve(path);
  }

  async *read(path: readonly string[]): AsyncGenerator<Uint8Array> {
    const { cluster, size } = await this.#resolve(path);
    let left = size;
    for await (const bytes of this.#chain(cluster, size)) {
      yield bytes.subarray(0, left);
      left -= bytes.length;
      if (left <= 0) return;
    }
    if (left > 0) throw broken("a file is shorter than its entry says");
  }

  target(path: readonly string[]): Promise<string> {
    return Promise.reject(noSuchFile(path));
  }

  async #resolve(path: readonly string[]): Promise<FatEntry> {
    let entry = directory("", this.#shape.rootCluster);
    for (const [depth, name] of path.entries()) {
      const next = (await this.#entries(entry, path.slice(0, depth))).find(
        (each) => each.name.toLowerCase() === name.toLowerCase(),
      );
      if (next === undefined) throw noSuchFile(path);
      entry = next;
    }
    return entry;
  }

  async #entries(entry: FatEntry, path: readonly string[]): Promise<readonly FatEntry[]> {
    if (entry.kind !== "d") throw notADirectory(path);
    const { bits, rootAt, rootBytes } = this.#shape;
    // Before FAT32 the root is no chain of clusters; entry 0 means it too.
    if (entry.cluster === 0 && bits !== 32)
      return parseEntries(await readWhole(this.#disk, rootAt, rootBytes));
    const parts: Buffer[] = [];
    const first = entry.cluster === 0 ? this.#shape.rootCluster : entry.cluster;
    for await (const bytes of this.#chain(first, MAX_DIRECTORY_BYTES)) parts.push(bytes);
    return parseEntries(Buffer.concat(parts));
  }

  /** Clusters one after another; a chain that does not end within `limit` bytes is cut there. */
  async *#chain(first: number, limit: number): AsyncGenerator<Buffer> {
    const { bits, clusterBytes, clusters, dataAt } = this.#shape;
    let got = 0;
    for (let cluster = first; cluster < LAST[bits] && got < limit; cluster = await this.#next(cluster)) {
      if (cluster < 2 || cluster >= clusters + 2) throw broken(`cluster ${cluster} is not there`);
      yield await readWhole(this.#disk, dataAt + (cluster - 2) * clusterBytes, clusterBytes);
      got += clusterBytes;
    }
  }

  async #next(cluster: number): Promise<number> {
    const { bits, fatAt } = this.#shape;
    if (bits === 32)
      return (await readWhole(this.#disk, fatAt + cluster * 4, 4)).readUInt32LE(0) & 0x0fff_ffff;
    if (bits === 16) return (await readWhole(this.#disk, fatAt + cluster * 2, 2)).readUInt16LE(0);
    const pair = (await readWhole(this.#disk, fatAt + Math.floor(cluster * 1.5), 2)).readUInt16LE(0);
    return cluster % 2 === 0 ? pair & 0xfff : pair >> 4;
  }
}

function geometryOf(sector: Buffer, diskBytes: number): Geometry | undefined {
  const bytesPerSector = sector.readUInt16LE(11);
  const sectorsPerCluster = sector.readUInt8(13);
  const reserved = sector.readUInt16LE(14);
  const fats = sector.readUInt8(16);
  const rootEntries = sector.readUInt16LE(17);
  const total = sector.readUInt16LE(19) || sector.readUInt32LE(32);
  const fatSectors = sector.readUInt16LE(22) || sector.readUInt32LE(36);
  if (sector.readUInt16LE(510) !== 0xaa55 || ![512, 1024, 2048, 4096].includes(bytesPerSector))
    return undefined;
  if (sectorsPerCluster === 0 || (sectorsPerCluster & (sectorsPerCluster - 1)) !== 0) return undefined;
  if (reserved === 0 || fats === 0 || fats > 2 || fatSectors === 0 || total === 0) return undefined;
  const rootBytes = rootEntries * ENTRY;
  const rootSectors = Math.ceil(rootBytes / bytesPerSector);
  const dataSector = reserved + fats * fatSectors + rootSectors;
  if (total <= dataSector || total * bytesPerSector > diskBytes) return undefined;
  const clusters = Math.floor((total - dataSector) / sectorsPerCluster);
  const bits = clusters < 4085 ? 12 : clusters < 65_525 ? 16 : 32;
  return {
    bits,
    clusterBytes: sectorsPerCluster * bytesPerSector,
    clusters,
    fatAt: reserved * bytesPerSector,
    dataAt: dataSector * bytesPerSector,
    rootAt: (reserved + fats * fatSectors) * bytesPerSector,
    rootBytes,
    rootCluster: bits === 32 ? sector.readUInt32LE(44) : 0,
  };
}

function parseEntries(bytes: Buffer): FatEntry[] {
  const found: FatEntry[] = [];
  let long: string[] = [];
  for (let at = 0; at + ENTRY <= bytes.length; at += ENTRY) {
    const entry = bytes.subarray(at, at + ENTRY);
    const first = entry.readUInt8(0);
    if (first === 0) break;
    const attributes = entry.readUInt8(11);
    if (first !== 0xe5 && attributes === 0x0f) {
      if (long.length === MAX_LONG_PARTS) throw broken("a name is too long");
      long.unshift(longPart(entry));
      continue;
    }
    const name = long.length > 0 ? long.join("") : shortName(entry);
    long = [];
    // Deleted ones, the volume's label, and the two that lead back.
    if (first === 0xe5 || (attributes & 0x08) !== 0 || name === "." || name === ".." || name.includes("/"))
      continue;
    const cluster = entry.readUInt16LE(26) + entry.readUInt16LE(20) * 65_536;
    const isDirectory = (attributes & 0x10) !== 0;
    found.push({
      ...directory(name, cluster),
      kind: isDirectory ? "d" : "f",
      size: isDirectory ? 0 : entry.readUInt32LE(28),
      mtime: timeOf(entry.readUInt16LE(24), entry.readUInt16LE(22)),
      mode: isDirectory ? 0o755 : 0o644,
    });
  }
  return found;
}

function longPart(entry: Buffer): string {
  const raw = Buffer.concat([entry.subarray(1, 11), entry.subarray(14, 26), entry.subarray(28, 32)]);
  const text = raw.toString("utf16le");
  const end = text.indexOf("\0");
  return end < 0 ? text : text.slice(0, end);
}

function shortName(entry: Buffer): string {
  const base = entry.toString("latin1", 0, 8).trimEnd();
  const extension = entry.toString("latin1", 8, 11).trimEnd();
  const flags = entry.readUInt8(12);
  const lower = (text: string, bit: number): string => ((flags & bit) === 0 ? text : text.toLowerCase());
  return extension === "" ? lower(base, 8) : `${lower(base, 8)}.${lower(extension, 16)}`;
}

/** It has no zone; taken as UTC. */
function timeOf(date: number, time: number): number {
  const ms = Date.UTC(
    1980 + (date >> 9),
    ((date >> 5) & 15) - 1,
    date & 31,
    time >> 11,
    (time >> 5) & 63,
    (time & 31) * 2,
  );
  return Math.max(0, Math.floor(ms / 1000));
}

function directory(name: string, cluster: number): FatEntry {
  return { name, kind: "d", size: 0, mtime: 0, mode: 0o755, uid: 0, gid: 0, cluster };
}

function broken(what: string): AppError {
  return refused(`the FAT file system in the backup is damaged: ${what}`);
}
