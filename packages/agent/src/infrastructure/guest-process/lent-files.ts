// Files of the host itself (a disk, a serial port, an image that root named by its path) are only lent to a guest: who
// owned them before is noted in the guest's folder first, and they are given back when the guest lets go of them.
import { realpath } from "node:fs/promises";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import type { GuestFolder, LentFile } from "./guest-folder.ts";
import { FIRST_GUEST_UID } from "./guest-uid.ts";
import { prepareFile } from "./guest-view.ts";

/** Makes a file usable by the guest. Resolves to what takes it back, should the guest not get it after all. */
export async function lendFile(
  folder: GuestFolder,
  file: GuestFile,
  uid: number,
  inGroup = true,
): Promise<() => Promise<void>> {
  const isNew = file.ofHost === true && (await note(folder, file.path, uid));
  const takeBack = isNew ? () => giveBack(folder, uid, file.path) : () => Promise.resolve();
  try {
    await prepareFile(file, uid, inGroup);
  } catch (err) {
    await takeBack();
    throw err;
  }
  return takeBack;
}

/**
 * Gives back what the guest has, or one of its files. What another guest has got meanwhile is that one's to return. The
 * uid is for notes of versions that did not write it down.
 */
export async function giveBack(folder: GuestFolder, uid: number | undefined, path?: string): Promise<void> {
  const lent = folder.readLent();
  const returned = lent.filter((file) => path === undefined || file.path === path);
  if (returned.length === 0) return;
  for (const file of returned)
    await restore(file, file.guest ?? uid).catch((err: unknown) =>
      ignore(err, "the device may have been unplugged"),
    );
  folder.writeLent(lent.filter((file) => !returned.includes(file)));
}

/** False when the guest has it already, or when there is nothing. */
async function note(folder: GuestFolder, path: string, guest: number): Promise<boolean> {
  const lent = folder.readLent();
  if (lent.some((file) => file.path === path)) return false;
  const before = await realpath(path)
    .then((place) => withHeldFile(place, ({ facts }) => Promise.resolve(facts)))
    .catch((err: unknown) => ignore(err, "told by who prepares it"));
  if (before === undefined) return false;
  // Another guest has it too: it was root's before that.
  const uid = before.uid >= FIRST_GUEST_UID ? 0 : before.uid;
  folder.writeLent([...lent, { path, uid, gid: before.gid, mode: before.mode & 0o7777, guest }]);
  return true;
}

async function restore({ path, uid, gid, mode }: LentFile, guest: number | undefined): Promise<void> {
  await withHeldFile(await realpath(path), async ({ facts, chown, chmod }) => {
    if (facts.uid !== guest) return;
    await chown(uid, gid);
    await chmod(mode);
  });
}
