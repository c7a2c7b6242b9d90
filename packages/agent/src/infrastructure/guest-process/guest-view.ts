// What a confined guest sees of the host: its own files, and read-only the program, its libraries and firmware.
import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import type { SupervisorSpec } from "../supervisor/spec-file.ts";
import { shareWithAll, shareWithGuests } from "./shared-files.ts";

/** Only these folders of libraries and firmware; /usr/lib as a whole holds more than a guest needs. */
const LIBRARY_FOLDERS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
const FIRMWARE_FOLDERS = [
  "/usr/lib/ipxe",
  "/usr/share/qemu",
  "/usr/share/seabios",
  "/usr/share/OVMF",
  "/usr/share/ovmf",
  "/usr/share/AAVMF",
  "/usr/share/qemu-efi-aarch64",
  "/usr/share/vgabios",
];
const DEVICES = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"];
/** Where `args` written for PVE put their sockets; here it is the guest's own folder. */
const RUN_FOLDERS = ["/run/qemu-server", "/var/run/qemu-server"];
/** Merged-usr systems link these into /usr. */
const TOP_LINKS = ["/lib", "/lib64"];

export type GuestView = Pick<SupervisorSpec, "binds" | "links" | "tmpfs">;

export function guestView(
  program: string,
  files: readonly GuestFile[],
  options: { readonly ioFolder: string; readonly kvm: boolean },
): GuestView {
  const { binds: base, links } = programView(program, FIRMWARE_FOLDERS);
  const binds = [...base];
  const add = (source: string, access: "ro" | "rw"): void => {
    binds.push({ source, target: source, access });
  };
  if (options.kvm) add("/dev/kvm", "rw");
  add(options.ioFolder, "rw");
  for (const target of RUN_FOLDERS) binds.push({ source: options.ioFolder, target, access: "rw" });
  for (const file of files)
    binds.push({ source: realPlace(file), target: file.as ?? file.path, access: file.access });
  return { binds, links, tmpfs: [{ path: "/tmp", size: "64m" }] };
}

/** What every program needs: itself, its libraries, the devices that are everybody's. */
export function programView(
  program: string,
  folders: readonly string[] = [],
): Pick<GuestView, "binds" | "links"> {
  const binds: GuestView["binds"][number][] = [];
  const links: GuestView["links"][number][] = [];
  const add = (path: string, access: "ro" | "rw"): void => {
    binds.push({ source: realpathSync(path), target: path, access });
  };
  for (const path of [...LIBRARY_FOLDERS, ...folders]) if (existsSync(path)) add(path, "ro");
  for (const path of TOP_LINKS) {
    if (!existsSync(path)) continue;
    if (lstatSync(path).isSymbolicLink()) links.push({ target: readlinkSync(path), path });
    else add(path, "ro");
  }
  binds.push({ source: realpathSync(program), target: program, access: "ro" });
  for (const path of DEVICES) add(path, "rw");
  return { binds, links };
}

/** The group that may use /dev/kvm, which the guest joins. */
export function kvmGroups(): number[] {
  return existsSync("/dev/kvm") ? [statSync("/dev/kvm").gid] : [];
}

/**
 * Where a file really is. Links of the host are followed, as root put them there. What is to be the guest's own may lie in
 * a folder that it or its helpers write to, and a storage has said already which of its files a link means: one that
 * is found there now would give the guest any file of the host.
 */
export function realPlace(file: GuestFile): string {
  const { path, access, owned = access === "rw" } = file;
  if (file.ofStorage === true || (owned && file.ofHost !== true)) return path;
  return existsSync(path) ? realpathSync(path) : path;
}

/** Gives the guest's own files to its uid and shared ones to the group of guests, which most guests are in. */
export async function prepareFile(file: GuestFile, uid: number, inGroup = true): Promise<void> {
  try {
    await withHeldFile(realPlace(file), async (held) => {
      const { facts, chown, chmod } = held;
      const mode = facts.mode & 0o777;
      if (file.owned ?? (file.access === "rw" || facts.isBlockDevice())) {
        if (facts.uid !== uid) await chown(uid, -1);
        const wanted = file.access === "rw" ? 0o600 : 0o400;
        if ((mode & wanted) !== wanted) await chmod(mode | wanted);
        if (file.deep === true && facts.isDirectory()) await giveContents(file.path, uid);
        return;
      }
      if (!inGroup || !facts.isFile()) return shareWithAll(held);
      await shareWithGuests(held, file.ofStorage === true);
    });
  } catch (cause) {
    throw new AppError(
      "guest.start_failed",
      `cannot make ${file.path} accessible to the guest: ${messageOf(cause)}`,
      { cause, pveStatus: 500 },
    );
  }
}

/** Nobody writes there now. What has another name elsewhere is not its own. */
async function giveContents(folder: string, uid: number): Promise<void> {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const isFolder = await withHeldFile(path, async ({ facts, chown }) => {
      const isOwn = facts.isDirectory() || (facts.isFile() && facts.nlink === 1);
      if (isOwn && facts.uid !== uid) await chown(uid, uid);
      return facts.isDirectory();
    });
    if (isFolder) await giveContents(path, uid);
  }
}
