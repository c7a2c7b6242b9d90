// What must stay because something else builds on it.
import { parseBackupName } from "@gpve/domain/storage/backup-name.ts";
import { formatDirVolume } from "@gpve/domain/storage/dir-volume.ts";
import type { VolumeName } from "@gpve/domain/storage/volume-name.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import { join } from "node:path";
import { listImages, namesIn, parentOf } from "./dir-listing.ts";

export async function requireUnusedBase(images: string, base: VolumeName): Promise<void> {
  const reference = `../${base.vmid}/${base.name}`;
  if ((await listImages(images, undefined)).some((row) => row.parent === reference)) {
    throw storageRefused(`base volume '${formatDirVolume(base)}' is still in use by linked clones`);
  }
}

/** An incremental backup is worth nothing without the one it builds on. */
export async function requireNoChild(directory: string, name: string): Promise<void> {
  for (const other of await namesIn(directory)) {
    if (parseBackupName(other)?.container !== "gpvi") continue;
    if ((await parentOf(join(directory, other))) !== name) continue;
    throw storageRefused(
      `cannot remove backup '${name}': the incremental backup '${other}' builds on it - remove that one first`,
    );
  }
}
