import { AppError } from "@gpve/contracts/errors.ts";
import type { DiskFormats, FileTree, RandomAccess } from "@gpve/domain/backup/file-tree.ts";
import { ExtTree } from "./ext-tree.ts";
import { FatTree } from "./fat-tree.ts";
import { readPartitions } from "./partitions.ts";

export const diskFormats: DiskFormats = { partitions: readPartitions, openTree };

/** What it is by its first bytes, for those that cannot be read. */
const SIGNATURES: readonly { readonly at: number; readonly bytes: string; readonly name: string }[] = [
  { at: 0, bytes: "XFSB", name: "xfs" },
  { at: 0x10040, bytes: "_BHRfS_M", name: "btrfs" },
  { at: 3, bytes: "NTFS    ", name: "ntfs" },
  { at: 3, bytes: "EXFAT   ", name: "exfat" },
  { at: 0, bytes: "LUKS\u00ba\u00be", name: "LUKS, encrypted" },
  { at: 512, bytes: "LABELONE", name: "an LVM volume" },
  { at: 0, bytes: "hsqs", name: "squashfs" },
  { at: 0x8001, bytes: "CD001", name: "iso9660" },
  { at: 4086, bytes: "SWAPSPACE2", name: "swap space" },
];

async function openTree(disk: RandomAccess): Promise<FileTree> {
  const tree = (await ExtTree.open(disk)) ?? (await FatTree.open(disk));
  if (tree !== undefined) return tree;
  for (const { at, bytes, name } of SIGNATURES) {
    const wanted = Buffer.from(bytes, "latin1");
    if (Buffer.from(await disk.read(at, wanted.length)).equals(wanted)) throw unreadable(`it is ${name}`);
  }
  throw unreadable("it is not known what it is");
}

function unreadable(what: string): AppError {
  return new AppError(
    "feature.unsupported",
    `no files can be listed here: ${what} (ext2, ext3, ext4 and FAT can be read)`,
    { pveStatus: 500 },
  );
}
