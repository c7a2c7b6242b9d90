// Files in folders that somebody else may write to, held by a descriptor. A path can be replaced by a link between two
// calls, a descriptor cannot: what was looked at is what is changed. Links themselves are refused.
import { constants, type Stats } from "node:fs";
import { chmod, chown, open, type FileHandle } from "node:fs/promises";
import { AppError } from "@gpve/contracts/errors.ts";

/** Linux; Node does not name it. Such a descriptor reads and writes nothing, so opening a device does nothing to it. */
const O_PATH = 0x20_0000;

export interface HeldFile {
  readonly facts: Stats;
  /** -1 leaves the one or the other as it is. */
  readonly chown: (uid: number, gid: number) => Promise<void>;
  readonly chmod: (mode: number) => Promise<void>;
}

/** Holds what lies at `path`, which is no link, while `use` runs. */
export async function withHeldFile<T>(path: string, use: (file: HeldFile) => Promise<T>): Promise<T> {
  const handle = await open(path, O_PATH | constants.O_NOFOLLOW);
  try {
    const facts = await handle.stat();
    if (facts.isSymbolicLink()) throw linkRefused(path);
    const held = `/proc/self/fd/${handle.fd}`;
    return await use({
      facts,
      chown: (uid, gid) => chown(held, uid, gid),
      chmod: (mode) => chmod(held, mode),
    });
  } finally {
    await handle.close();
  }
}

/** Opens a plain file for reading: no link, no pipe that would wait for ever. */
export async function openPlainFile(path: string): Promise<FileHandle> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(path, flags).catch((err: unknown) => {
    throw (err as NodeJS.ErrnoException).code === "ELOOP" ? linkRefused(path) : err;
  });
  try {
    const facts = await handle.stat();
    if (!facts.isFile() && !facts.isBlockDevice())
      throw new AppError("request.invalid", `${path} is no plain file`, { pveStatus: 500 });
    return handle;
  } catch (err) {
    await handle.close();
    throw err;
  }
}

/** Makes a file that was not there, to be written by the descriptor: whatever takes its name meanwhile is not written to. */
export function createPlainFile(path: string, mode: number): Promise<FileHandle> {
  return open(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, mode);
}

/** The end of a pipeline: writes to an open file, and leaves it open. */
export function sinkInto(file: FileHandle): (chunks: AsyncIterable<Uint8Array>) => Promise<void> {
  return async (chunks) => {
    for await (const chunk of chunks) await file.writeFile(chunk);
  };
}

function linkRefused(path: string): AppError {
  return new AppError("request.invalid", `${path} is a link where a file should be: it is not followed`, {
    pveStatus: 500,
  });
}
