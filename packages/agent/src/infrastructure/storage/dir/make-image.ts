// Making a guest's image: a name is reserved with an empty file, the file is filled, and everything is taken back when
// that fails.
import { mkdir, rm, rmdir, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import type { ImageFormat } from "@gpve/domain/storage/content.ts";
import { parseImageName } from "@gpve/domain/storage/dir-volume.ts";
import { freeDiskName, refuseBaseName } from "@gpve/domain/storage/volume-name.ts";
import { storageExists, storageRefused } from "@gpve/domain/storage/failures.ts";
import type { VolumeOwnership } from "@gpve/domain/storage/plugin.ts";
import { ignore } from "@gpve/kit/background.ts";
import { createPlainFile, withHeldFile } from "@gpve/kit/held-file.ts";
import type { EmptyImage } from "../../image-tools/empty-image.ts";
import { shareWithGuests } from "../../guest-process/shared-files.ts";
import { namesIn } from "./dir-listing.ts";
import { makeDirectory } from "./make-directory.ts";
import { volumeFile } from "./volume-file.ts";

export const PRIVATE_FILE_MODE = 0o600;
/** Guests run under their own users and must be able to pass through to their files. */
export const DIRECTORY_MODE = 0o711;

export interface NewImage {
  readonly storage: string;
  readonly vmid: number;
  readonly format: ImageFormat;
  readonly name: string | undefined;
  readonly ownership: VolumeOwnership | undefined;
}

/** Returns the volume's name, "100/vm-100-disk-0.qcow2". */
export async function makeImage(
  images: string,
  { storage, vmid, format, name, ownership }: NewImage,
  fill: (image: EmptyImage) => Promise<void>,
): Promise<string> {
  const directory = join(images, String(vmid));
  await makeDirectory(directory, DIRECTORY_MODE);
  // A link in the place of a guest's folder would lead all that follows elsewhere.
  await volumeFile({ type: "images", folder: images, path: directory });
  const { name: reserved, file } = await reserve(directory, { storage, vmid, format, name });
  const path = join(directory, reserved);
  try {
    if (file !== undefined) {
      await fill({ path, file });
      await file.chmod(PRIVATE_FILE_MODE);
    }
    await ownership?.(path, vmid);
  } catch (err) {
    await rm(path, { recursive: true, force: true });
    await removeIfEmpty(directory);
    throw err;
  } finally {
    await file?.close();
  }
  return `${vmid}/${reserved}`;
}

/** For good: its guest could make a file of its own writable again. */
export async function makeReadOnly(path: string): Promise<void> {
  const isRoot = process.getuid?.() === 0;
  await withHeldFile(path, async (file) => {
    if (isRoot) await file.chown(0, 0);
    await file.chmod(0o440);
  });
  if (isRoot) await withHeldFile(path, (file) => shareWithGuests(file, true));
}

export async function removeIfEmpty(directory: string): Promise<void> {
  await rmdir(directory).catch((err: unknown) => ignore(err, "other volumes of the guest may be there"));
}

async function reserve(
  directory: string,
  { storage, vmid, format, name: given }: Omit<NewImage, "ownership">,
): Promise<{ readonly name: string; readonly file: FileHandle | undefined }> {
  if (given !== undefined) {
    refuseBaseName(given, vmid);
    requireFitting(given, format);
  }
  for (;;) {
    const prefix = format === "subvol" ? "subvol" : "vm";
    const name = given ?? freeDiskName(vmid, await namesIn(directory), `.${format}`, prefix, storage);
    const path = join(directory, name);
    try {
      if (format !== "subvol") return { name, file: await createPlainFile(path, PRIVATE_FILE_MODE) };
      await mkdir(path, { mode: 0o755 });
      return { name, file: undefined };
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== "EEXIST") throw err;
      // With a free choice somebody else took that name just now: the next look finds another.
      if (given !== undefined) throw storageExists(`disk image '${path}' already exists`);
    }
  }
}

function requireFitting(name: string, format: ImageFormat): void {
  const parsed = parseImageName(name);
  if (parsed === undefined) throw storageRefused(`unable to parse volume filename '${name}'`);
  if (parsed.format === format) return;
  throw storageRefused(
    `illegal name '${name}' - wrong extension for format ('${parsed.format} != '${format}')`,
  );
}
