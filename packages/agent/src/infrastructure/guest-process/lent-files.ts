// Files of the host itself (a disk, a serial port, an image that root named by its path) are only lent to a guest: who
// owned them before is noted in the guest's folder first, and they are given back when the guest lets go of them.
import { chmod, chown, stat } from "node:fs/promises";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { GuestFolder, LentFile } from "./guest-folder.ts";
import { FIRST_GUEST_UID } from "./guest-uid.ts";
import { prepareFile } from "./guest-view.ts";

/** Makes a file usable by the guest. */
export async function lendFile(folder: GuestFolder, file: GuestFile, uid: number): Promise<void> {
  if (file.ofHost === true) await note(folder, file.path);
  await prepareFile(file, uid);
}

/** Gives back what the guest has, or one of its files. What another guest has got meanwhile is that one's to return. */
export async function giveBack(folder: GuestFolder, uid: number | undefined, path?: string): Promise<void> {
  const lent = folder.readLent();
  const returned = lent.filter((file) => path === undefined || file.path === path);
  if (uid === undefined || returned.length === 0) return;
  for (const file of returned)
    await restore(file, uid).catch((err: unknown) => ignore(err, "the device may have been unplugged"));
  folder.writeLent(lent.filter((file) => !returned.includes(file)));
}

async function note(folder: GuestFolder, path: string): Promise<void> {
  const lent = folder.readLent();
  if (lent.some((file) => file.path === path)) return;
  const before = await stat(path).catch(() => undefined);
  if (before === undefined) return; // told by who prepares it
  // Another guest has it too: it was root's before that.
  const uid = before.uid >= FIRST_GUEST_UID ? 0 : before.uid;
  folder.writeLent([...lent, { path, uid, gid: before.gid, mode: before.mode & 0o7777 }]);
}

async function restore({ path, uid, gid, mode }: LentFile, guestUid: number): Promise<void> {
  if ((await stat(path)).uid !== guestUid) return;
  await chown(path, uid, gid);
  await chmod(path, mode);
}
