// How much may be written where something is unpacked or fetched whose true size nobody knows before: what is free there,
// less a reserve. An archive of a few kilobytes can unpack to petabytes; that must end before the storage is full.
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { AppError } from "@gpve/contracts/errors.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";

/** Bytes that a new file at this path may have. */
export interface Room {
  (path: string): Promise<number>;
}

const RESERVE_BYTES = 64 * 1024 * 1024;

export const freeRoom: Room = async (path) => {
  const { bavail, bsize } = await statfs(dirname(path));
  return Math.max(0, bavail * bsize - RESERVE_BYTES);
};

export function tooLarge(bytes: number, cause?: unknown): AppError {
  return storageRefused(
    `the unpacked file does not fit on the storage: it has more than ${bytes} bytes`,
    cause,
  );
}
