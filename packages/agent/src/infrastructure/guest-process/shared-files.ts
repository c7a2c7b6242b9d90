// Files that several guests read (base images, discs, kernels) are given to a group that every guest is in and no account
// of the host. One group for all nodes: on a shared storage they would otherwise take such a file from each other.
import { ignore } from "@gpve/kit/background.ts";
import type { HeldFile } from "@gpve/kit/held-file.ts";

/** Below the guests' own groups, beside that of the image tools. */
export const GUESTS_GROUP = 0x3fff_fffe;

const GROUP_READ = 0o040;
const OTHERS_READ = 0o004;

/** Lets guests read it and, where it is a file of a storage, nobody else but its owner. */
export async function shareWithGuests(file: HeldFile, ofStorage: boolean): Promise<void> {
  const mode = file.facts.mode & 0o777;
  // What everybody may read on the host (/etc/resolv.conf) is the host's affair.
  if ((mode & OTHERS_READ) !== 0 && !ofStorage) return;
  if (!(await isGiven(file))) return shareWithAll(file);
  const others = ofStorage ? 0 : mode & 0o007;
  const wanted = (mode & 0o700) | GROUP_READ | others;
  if (mode !== wanted) await file.chmod(wanted);
}

/** For devices and folders of the host, for file systems without groups, and for guests that are not in the group. */
export async function shareWithAll({ facts, chmod }: HeldFile): Promise<void> {
  const mode = facts.mode & 0o777;
  const wanted = mode | (facts.isDirectory() ? 0o005 : OTHERS_READ);
  if (mode !== wanted) await chmod(wanted);
}

/** Some file systems know no groups or let nobody change them: FAT, NFS whose server distrusts root. */
async function isGiven({ facts, chown }: HeldFile): Promise<boolean> {
  if (facts.gid === GUESTS_GROUP) return true;
  try {
    await chown(-1, GUESTS_GROUP);
    return true;
  } catch (err) {
    ignore(err, "its mode says who may read it, as for accounts");
    return false;
  }
}
