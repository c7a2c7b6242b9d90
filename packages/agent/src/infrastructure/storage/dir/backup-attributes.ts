// Notes and protection of a backup are small files beside its archive.
import { lstat, rename, rm, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import {
  logNameOf,
  NOTES_SUFFIX,
  PARENT_SUFFIX,
  PROTECTED_SUFFIX,
} from "@gpve/domain/storage/backup-name.ts";
import { ignore } from "@gpve/kit/background.ts";
import { createPlainFile } from "@gpve/kit/held-file.ts";
import { PRIVATE_FILE_MODE } from "./make-image.ts";
import { readSideFile } from "./side-file.ts";

export function readNotes(archive: string): Promise<string> {
  return readSideFile(archive + NOTES_SUFFIX);
}

export async function writeNotes(archive: string, notes: string): Promise<void> {
  const path = archive + NOTES_SUFFIX;
  if (notes === "") {
    await rm(path, { force: true });
    return;
  }
  const temporary = `${path}.new`;
  // What a crash left there, or a link.
  await rm(temporary, { force: true });
  const handle = await createPlainFile(temporary, PRIVATE_FILE_MODE);
  try {
    await handle.writeFile(notes);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, path);
}

export async function isMarkedProtected(archive: string): Promise<boolean> {
  return (await lstat(archive + PROTECTED_SUFFIX).catch(() => undefined)) !== undefined;
}

export async function markProtected(archive: string, on: boolean): Promise<void> {
  const path = archive + PROTECTED_SUFFIX;
  if (!on) await rm(path, { force: true });
  else if (!(await isMarkedProtected(archive)))
    await (await createPlainFile(path, PRIVATE_FILE_MODE)).close();
}

/** What belongs to an archive goes with it; its protection was lifted before. */
export async function removeSideFiles(archive: string): Promise<void> {
  const log = logNameOf(basename(archive));
  const files = [archive + NOTES_SUFFIX, archive + PARENT_SUFFIX];
  if (log !== undefined) files.push(join(dirname(archive), log));
  for (const file of files) {
    await unlink(file).catch((err: unknown) => ignore(err, "a side file need not exist"));
  }
}
