import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";

/**
 * A directory and those it lies in, where they are not there yet. Node's own way never ends, and keeps a thread busy,
 * where a file system refuses new directories as if the old ones were missing: /proc does.
 */
export async function makeDirectory(path: string, mode: number): Promise<void> {
  if (await isDirectory(path)) return;
  const parent = dirname(path);
  if (parent !== path) await makeDirectory(parent, mode);
  try {
    await mkdir(path, { mode });
  } catch (cause) {
    // Somebody else may have made it just now.
    if (await isDirectory(path)) return;
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = /^\w+: (.*), mkdir/.exec(message)?.[1] ?? message;
    if (code === "ENOSPC" || code === "EDQUOT")
      throw new AppError("capacity.exceeded", `not enough space on the storage: mkdir ${path}: ${why}`, {
        cause,
        pveStatus: 500,
      });
    throw new AppError("node.unavailable", `mkdir ${path}: ${why}`, { cause, pveStatus: 500 });
  }
}

async function isDirectory(path: string): Promise<boolean> {
  const facts = await stat(path).catch(() => undefined);
  return facts?.isDirectory() === true;
}
