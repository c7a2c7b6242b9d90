// The few ways in which facts look at the host's files; tests look at a made-up host instead.
import { readFile, readdir, stat, statfs } from "node:fs/promises";

export interface HostFiles {
  /** undefined: not there or not readable. */
  read(path: string): Promise<string | undefined>;
  readBytes(path: string): Promise<Uint8Array | undefined>;
  list(path: string): Promise<readonly string[]>;
  /** Seconds since the epoch with fraction; undefined: not there. */
  mtime(path: string): Promise<number | undefined>;
  space(path: string): Promise<{ total: number; free: number; avail: number }>;
}

const orUndefined = async <T>(work: Promise<T>): Promise<T | undefined> => work.catch(() => undefined);

export const hostFiles: HostFiles = {
  read: (path) => orUndefined(readFile(path, "utf8")),
  readBytes: (path) => orUndefined(readFile(path)),
  list: async (path) => ((await orUndefined(readdir(path))) ?? []).toSorted(),
  mtime: async (path) => {
    const found = await orUndefined(stat(path));
    return found === undefined ? undefined : found.mtimeMs / 1_000;
  },
  space: async (path) => {
    const found = await statfs(path);
    return {
      total: found.blocks * found.bsize,
      free: found.bfree * found.bsize,
      avail: found.bavail * found.bsize,
    };
  },
};
