import type { RandomAccess } from "@gpve/domain/backup/file-tree.ts";
import { refused } from "@gpve/domain/request/failures.ts";

/** All of what a file system says is there: it may lie. */
export async function readWhole(disk: RandomAccess, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.from(await disk.read(offset, length));
  if (bytes.length < length)
    throw refused("the file system in the backup is damaged: something lies beyond its end");
  return bytes;
}
