// ext2, ext3 and ext4, read only. Written here, in a language that checks every access, because the file system comes
// from inside a guest: a bad one can at worst be refused.
import { AppError } from "@gpve/contracts/errors.ts";
import type { FileKind, FileTree, RandomAccess, TreeFile } from "@gpve/domain/backup/file-tree.ts";
import { broken, decodeInode, runsOf, type ExtInode } from "./ext-inode.ts";
import { readWhole } from "./read-whole.ts";
import { noSuchFile, notADirectory } from "./tree-failures.ts";

const ROOT_INODE = 2;
const MAX_DIRECTORY_BYTES = 64 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;
const MAX_LINK_BYTES = 65_536;

const INCOMPAT = { fileType: 0x2, extents: 0x40, bit64: 0x80 } as const;
/** Also: journal to be replayed, flexible groups, large xattrs, checksum seed, large directories, case folding. */
const KNOWN_INCOMPAT =
  INCOMPAT.fileType |
  0x4 |
  INCOMPAT.extents |
  INCOMPAT.bit64 |
  0x200 |
  0x400 |
  0x2000 |
  0x4000 |
  0x8000 |
  0x20000;

const KINDS: Readonly<Record<number, FileKind>> = {
  0x1000: "p",
  0x2000: "c",
  0x4000: "d",
  0x6000: "b",
  0x8000: "f",
  0xa000: "l",
  0xc000: "s",
};

export class ExtTree implements FileTree {
  readonly type: string;
  readonly #disk: RandomAccess;
  readonly #blockBytes: number;
  readonly #inodeBytes: number;
  readonly #inodesPerGroup: number;
  readonly #inodes: number;
  readonly #descBytes: number;
  readonly #descAt: number;
  readonly #hasFileType: boolean;

  private constructor(disk: RandomAccess, superblock: Buffer) {
    const incompat = superblock.readUInt32LE(0x60);
    const logBlock = superblock.readUInt32LE(0x18);
    const unknown = incompat & ~KNOWN_INCOMPAT;
    if (unknown !== 0)
      throw new AppError(
        "feature.unsupported",
        `the ext file system has features 0x${(unknown >>> 0).toString(16)}, which cannot be read`,
        { pveStatus: 500 },
      );
    if (logBlock > 6) throw broken("its block size");
    const revision = superblock.readUInt32LE(0x4c);
    this.type = (incompat & INCOMPAT.extents) !== 0 ? "ext4" : "ext2";
    this.#disk = disk;
    this.#blockBytes = 1024 << logBlock;
    this.#inodeBytes = revision === 0 ? 128 : superblock.readUInt16LE(0x58);
    this.#inodesPerGroup = superblock.readUInt32LE(0x28);
    this.#inodes = superblock.readUInt32LE(0);
    this.#descBytes = (incompat & INCOMPAT.bit64) === 0 ? 32 : superblock.readUInt16LE(0xfe);
    this.#descAt = (superblock.readUInt32LE(0x14) + 1) * this.#blockBytes;
    this.#hasFileType = (incompat & INCOMPAT.fileType) !== 0;
    if (this.#inodeBytes < 128 || this.#inodeBytes > this.#blockBytes || this.#inodesPerGroup === 0)
      throw broken("its inodes");
    if (this.#descBytes < 32 || this.#descBytes > 1024) throw broken("its group descriptors");
  }

  /** undefined = it is something else. */
  static async open(disk: RandomAccess): Promise<ExtTree | undefined> {
    const superblock = Buffer.from(await disk.read(1024, 1024));
    if (superblock.length < 1024 || superblock.readUInt16LE(0x38) !== 0xef53) return undefined;
    return new ExtTree(disk, superblock);
  }

  async list(path: readonly string[]): Promise<readonly TreeFile[]> {
    const directory = await this.#resolve(path);
    if (kindOf(directory) !== "d") throw notADirectory(path);
    const rows: TreeFile[] = [];
    for (const { name, inode } of await this.#entries(directory))
      if (name !== "." && name !== "..") rows.push(fileOf(name, await this.#inode(inode)));
    return rows;
  }

  async find(path: readonly string[]): Promise<TreeFile> {
    return fileOf(path.at(-1) ?? "", await this.#resolve(path));
  }

  async *read(path: readonly string[]): AsyncGenerator<Uint8Array> {
    yield* this.#content(await this.#resolve(path));
  }

  async target(path: readonly string[]): Promise<string> {
    const inode = await this.#resolve(path);
    if (inode.size < 60) return inode.block.toString("utf8", 0, inode.size);
    if (inode.size > MAX_LINK_BYTES) throw broken("a link is too long");
    return (await this.#all(inode)).toString("utf8");
  }

  async #resolve(path: readonly string[]): Promise<ExtInode> {
    let inode = await this.#inode(ROOT_INODE);
    for (const [depth, name] of path.entries()) {
      if (kindOf(inode) !== "d") throw notADirectory(path.slice(0, depth));
      const next = (await this.#entries(inode)).find((entry) => entry.name === name);
      if (next === undefined) throw noSuchFile(path);
      inode = await this.#inode(next.inode);
    }
    return inode;
  }

  async #inode(number: number): Promise<ExtInode> {
    if (number < 1 || number > this.#inodes) throw broken(`inode ${number} is not there`);
    const group = Math.floor((number - 1) / this.#inodesPerGroup);
    const desc = await readWhole(this.#disk, this.#descAt + group * this.#descBytes, this.#descBytes);
    const high = this.#descBytes >= 64 ? desc.readUInt32LE(0x28) : 0;
    const table = (desc.readUInt32LE(8) + high * 2 ** 32) * this.#blockBytes;
    const at = table + ((number - 1) % this.#inodesPerGroup) * this.#inodeBytes;
    return decodeInode(await readWhole(this.#disk, at, 128));
  }

  async #entries(directory: ExtInode): Promise<readonly { name: string; inode: number }[]> {
    if (directory.size > MAX_DIRECTORY_BYTES) throw broken("a directory is too large");
    const bytes = await this.#all(directory);
    const found: { name: string; inode: number }[] = [];
    for (let at = 0; at + 8 <= bytes.length;) {
      const inode = bytes.readUInt32LE(at);
      const length = bytes.readUInt16LE(at + 4);
      const nameBytes = this.#hasFileType ? bytes.readUInt8(at + 6) : bytes.readUInt16LE(at + 6);
      if (length < 8 || length % 4 !== 0 || at + length > bytes.length || nameBytes > length - 8)
        throw broken("a directory entry");
      const name = bytes.toString("utf8", at + 8, at + 8 + nameBytes);
      // A slash would lead out of the directory, where the files are unpacked at the latest.
      if (inode !== 0 && name !== "" && !/[/\0]/.test(name)) found.push({ name, inode });
      at += length;
    }
    return found;
  }

  async #all(inode: ExtInode): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for await (const part of this.#content(inode)) parts.push(part);
    return Buffer.concat(parts);
  }

  async *#content(inode: ExtInode): AsyncGenerator<Uint8Array> {
    let at = 0;
    for await (const { logical, physical, count } of runsOf(this.#disk, this.#blockBytes, inode)) {
      const start = logical * this.#blockBytes;
      if (start < at) throw broken("the parts of a file overlap");
      yield* zeroes(Math.min(start, inode.size) - at);
      at = Math.min(start, inode.size);
      const end = Math.min(start + count * this.#blockBytes, inode.size);
      for (let offset = at; offset < end; offset += CHUNK_BYTES) {
        const length = Math.min(CHUNK_BYTES, end - offset);
        if (physical === 0) yield* zeroes(length);
        else yield await readWhole(this.#disk, physical * this.#blockBytes + (offset - start), length);
      }
      at = Math.max(at, end);
      if (at >= inode.size) return;
    }
    yield* zeroes(inode.size - at);
  }
}

const ZEROES = Buffer.alloc(CHUNK_BYTES);

function* zeroes(length: number): Generator<Uint8Array> {
  for (let at = 0; at < length; at += CHUNK_BYTES)
    yield ZEROES.subarray(0, Math.min(CHUNK_BYTES, length - at));
}

function kindOf(inode: ExtInode): FileKind {
  const kind = KINDS[inode.mode & 0xf000];
  if (kind === undefined) throw broken("an inode of no kind");
  return kind;
}

function fileOf(name: string, inode: ExtInode): TreeFile {
  const { size, mtime, mode, uid, gid } = inode;
  return { name, kind: kindOf(inode), size, mtime, mode: mode & 0o7777, uid, gid };
}
