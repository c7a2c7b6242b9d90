// Inodes of ext2, ext3 and ext4, and where their bytes lie.
import { refused } from "@gpve/domain/request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { RandomAccess } from "@gpve/domain/backup/file-tree.ts";

export interface ExtInode {
  readonly mode: number;
  readonly size: number;
  readonly mtime: number;
  readonly uid: number;
  readonly gid: number;
  readonly flags: number;
  /** i_block: extents, block numbers, or the text of a short link. */
  readonly block: Buffer;
}

/** Blocks in a row; `physical` 0 = they read as zeroes. */
export interface Run {
  readonly logical: number;
  readonly physical: number;
  readonly count: number;
}

const EXTENTS = 0x80000;
const INLINE = 0x1000_0000;
const ENCRYPTED = 0x800;
const EXTENT_MAGIC = 0xf30a;
const MAX_DEPTH = 5;

export function broken(what: string): AppError {
  return refused(`the file system in the backup is damaged: ${what}`);
}

export function decodeInode(bytes: Buffer): ExtInode {
  const mode = bytes.readUInt16LE(0);
  const isFile = (mode & 0xf000) === 0x8000;
  const high = isFile ? bytes.readUInt32LE(0x6c) : 0;
  return {
    mode,
    size: bytes.readUInt32LE(4) + high * 2 ** 32,
    mtime: bytes.readUInt32LE(0x10),
    uid: bytes.readUInt16LE(2) + bytes.readUInt16LE(0x78) * 65_536,
    gid: bytes.readUInt16LE(0x18) + bytes.readUInt16LE(0x7a) * 65_536,
    flags: bytes.readUInt32LE(0x20),
    block: bytes.subarray(0x28, 0x28 + 60),
  };
}

/** In the order of the file; what is not told is a hole. */
export async function* runsOf(disk: RandomAccess, blockBytes: number, inode: ExtInode): AsyncGenerator<Run> {
  if ((inode.flags & (INLINE | ENCRYPTED)) !== 0)
    throw new AppError(
      "feature.unsupported",
      "files that are encrypted or lie inside their inode cannot be read",
      {
        pveStatus: 500,
      },
    );
  // Tables that lead into each other would not end in years. In a healthy file each is there once.
  const tables = new Set<number>();
  const read = async (block: number): Promise<Buffer> => {
    if (tables.has(block)) throw broken("the tables of a file lead into each other");
    tables.add(block);
    const bytes = Buffer.from(await disk.read(block * blockBytes, blockBytes));
    if (bytes.length < blockBytes) throw broken("a block lies beyond the end");
    return bytes;
  };
  const limit = Math.ceil(inode.size / blockBytes);
  if ((inode.flags & EXTENTS) !== 0) {
    yield* extentRuns(inode.block, read, MAX_DEPTH);
    return;
  }
  const perBlock = blockBytes / 4;
  let logical = 0;
  for (let index = 0; index < 15 && logical < limit; index++) {
    const depth = Math.max(0, index - 11);
    const span = perBlock ** depth;
    const block = inode.block.readUInt32LE(index * 4);
    if (block !== 0) yield* indirectRuns(block, logical, depth, perBlock, limit, read);
    logical += span;
  }
}

async function* extentRuns(
  node: Buffer,
  read: (block: number) => Promise<Buffer>,
  depthLeft: number,
): AsyncGenerator<Run> {
  if (node.readUInt16LE(0) !== EXTENT_MAGIC || depthLeft < 0) throw broken("an extent tree is none");
  const entries = node.readUInt16LE(2);
  const depth = node.readUInt16LE(6);
  if (12 + entries * 12 > node.length) throw broken("an extent tree has too many entries");
  for (let index = 0; index < entries; index++) {
    const at = 12 + index * 12;
    if (depth > 0) {
      const child = node.readUInt32LE(at + 4) + node.readUInt16LE(at + 8) * 2 ** 32;
      yield* extentRuns(await read(child), read, depthLeft - 1);
      continue;
    }
    const length = node.readUInt16LE(at + 4);
    if (length === 0) throw broken("an extent is empty");
    // Longer than this: allocated, but never written.
    const unwritten = length > 32_768;
    const start = node.readUInt32LE(at + 8) + node.readUInt16LE(at + 6) * 2 ** 32;
    yield {
      logical: node.readUInt32LE(at),
      physical: unwritten ? 0 : start,
      count: unwritten ? length - 32_768 : length,
    };
  }
}

async function* indirectRuns(
  block: number,
  logical: number,
  depth: number,
  perBlock: number,
  limit: number,
  read: (block: number) => Promise<Buffer>,
): AsyncGenerator<Run> {
  if (depth === 0) {
    yield { logical, physical: block, count: 1 };
    return;
  }
  const table = await read(block);
  const span = perBlock ** (depth - 1);
  for (let index = 0; index < perBlock && logical + index * span < limit; index++) {
    const next = table.readUInt32LE(index * 4);
    if (next !== 0) yield* indirectRuns(next, logical + index * span, depth - 1, perBlock, limit, read);
  }
}
