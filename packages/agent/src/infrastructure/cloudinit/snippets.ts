// Snippets that `cicustom` names: files of people, read whole into a drive.
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { requireVolumeId } from "@gpve/domain/storage/volume-id.ts";

const MOST_BYTES = 1024 * 1024;

export async function readSnippet(
  pluginOf: (storage: string) => StoragePlugin,
  volid: string,
): Promise<string> {
  const { storage, volname } = requireVolumeId(volid);
  const plugin = pluginOf(storage);
  if (plugin.parse(volname).type !== "snippets") throw refused(`${volid} is not in the snippets directory`);
  await plugin.activate();
  return readFile(plugin.path(volname), volid);
}

function readFile(path: string, volid: string): string {
  let file: number;
  try {
    // Who may write snippets must not make others read: no links. A pipe must not make us wait.
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") throw refused(`volume '${volid}' does not exist`);
    throw refused(`cannot read snippet '${volid}': ${(cause as Error).message}`, cause);
  }
  try {
    const found = fstatSync(file);
    if (!found.isFile()) throw refused(`snippet '${volid}' is not a file`);
    if (found.size > MOST_BYTES) throw refused(`file '${volid}' too long - aborting`);
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

function refused(message: string, cause?: unknown): AppError {
  return new AppError("request.invalid", message, {
    pveStatus: 500,
    ...(cause === undefined ? {} : { cause }),
  });
}
