// Files that a guest's process has written for us. The process is not trusted: it may have put a link there instead.
import { constants } from "node:fs";
import { open, rm } from "node:fs/promises";
import { AppError } from "@gpve/contracts/errors.ts";

const MAX_BYTES = 64 * 1024 * 1024;

/** Reads and removes it. */
export async function takeGuestFile(path: string, ownerUid: number | undefined): Promise<Uint8Array> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const facts = await file.stat();
      const isItsOwn =
        facts.isFile() && facts.nlink === 1 && (ownerUid === undefined || facts.uid === ownerUid);
      if (!isItsOwn || facts.size > MAX_BYTES)
        throw new AppError("internal.error", `${path} is not what the guest was asked for`);
      return await file.readFile();
    } finally {
      await file.close();
    }
  } finally {
    await rm(path, { force: true });
  }
}
