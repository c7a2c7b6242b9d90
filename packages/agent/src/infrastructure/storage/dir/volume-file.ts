// The file that a volume really is. Links may lie among media, as an administrator's shorter name for another file of the
// same folder; one that leads out of it would make any file of the host a volume. Disks of guests are never links.
import { lstat, realpath } from "node:fs/promises";
import { join, relative } from "node:path";
import type { VolumeType } from "@gpve/domain/storage/content.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import { isBelow } from "@gpve/domain/storage/protected-paths.ts";

export interface VolumePlace {
  readonly type: VolumeType;
  /** Where the volumes of its type lie; may be a link itself, which the guard has judged. */
  readonly folder: string;
  readonly path: string;
}

/** The path in its folder, without links below it. Throws ENOENT when nothing is there. */
export async function volumeFile({ type, folder, path }: VolumePlace): Promise<string> {
  const real = await realpath(path);
  const realFolder = await realpath(folder);
  const name = relative(realFolder, real);
  if (type === "images" || type === "rootdir") {
    if (name !== relative(folder, path))
      throw storageRefused(`${path} is a link where a file should be: it is not followed`);
  } else if (!isBelow(real, realFolder))
    throw storageRefused(
      `${path} is a link to ${real}, which lies outside of its folder: put the file itself there, or define a storage where it lies`,
    );
  const facts = await lstat(real);
  if (facts.isFile() || facts.isDirectory()) return join(folder, name);
  throw storageRefused(`${real} is no plain file`);
}
