// Snippets that `cicustom` names: files of people, read whole into a drive by a process that may read everything. So they
// are reached by descriptors alone: no link is followed below the folder of snippets, and no more is read than a snippet
// may have.
import { refused } from "@gpve/domain/request/failures.ts";
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { basename, dirname } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";

const MOST_BYTES = 1024 * 1024;

export async function readSnippet(
  snippetOf: (volid: string) => { readonly plugin: StoragePlugin; readonly volname: string },
  volid: string,
): Promise<string> {
  const { plugin, volname } = snippetOf(volid);
  await plugin.activate();
  return readFile(plugin.path(volname), volid);
}

function readFile(path: string, volid: string): string {
  let folder: number | undefined;
  let file: number | undefined;
  try {
    folder = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
    // Who may write snippets must not make others read: no links. A pipe must not make us wait.
    file = openSync(
      `/proc/self/fd/${folder}/${basename(path)}`,
      constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
    );
    if (!fstatSync(file).isFile()) throw refused(`snippet '${volid}' is not a file`);
    return readAtMost(file, volid);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT") throw refused(`volume '${volid}' does not exist`);
    if (code === "ELOOP") throw refused(`snippet '${volid}' is a link; put the file itself there`, { cause });
    if (cause instanceof AppError) throw cause;
    throw refused(`cannot read snippet '${volid}': ${(cause as Error).message}`, { cause });
  } finally {
    if (file !== undefined) closeSync(file);
    if (folder !== undefined) closeSync(folder);
  }
}

/** It may grow while it is read. */
function readAtMost(file: number, volid: string): string {
  const bytes = Buffer.alloc(MOST_BYTES + 1);
  let got = 0;
  for (let read = -1; read !== 0 && got < bytes.length; got += read)
    read = readSync(file, bytes, got, bytes.length - got, null);
  if (got > MOST_BYTES) throw refused(`file '${volid}' too long - aborting`);
  return bytes.toString("utf8", 0, got);
}
