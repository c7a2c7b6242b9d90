// Device nodes of our own for logical volumes. Those below /dev/<group> are links, and udev gives what they lead to back to
// root whenever somebody closes the device: a guest that runs as its own user would lose its disk. Ours have the same
// numbers, are no links, and nobody else changes them. They lie in the kernel's own file system for devices, because others
// may be mounted without.
import { constants } from "node:fs";
import { lstat, mkdir, open, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { storageMissing } from "@gpve/domain/storage/failures.ts";
import type { Exec } from "@gpve/kit/exec.ts";

/** Guests run under their own users and must be able to pass through. */
const FOLDER_MODE = 0o711;

export class DeviceNodes {
  readonly #exec: Exec;
  readonly #group: string;
  readonly #devices: string;

  constructor(group: string, exec: Exec, devices = "/dev") {
    this.#devices = devices;
    this.#group = group;
    this.#exec = exec;
  }

  /** Where the node of an active volume is, or will be. */
  path(logical: string): string {
    return join(this.#devices, "gpve", this.#group, logical);
  }

  /** Makes the node of an active volume, or makes it anew where the volume has other numbers by now. */
  async make(logical: string): Promise<void> {
    const device = await stat(join(this.#devices, this.#group, logical)).catch((cause: unknown) => {
      throw storageMissing(`the device of logical volume '${this.#group}/${logical}' is not there`, cause);
    });
    const path = this.path(logical);
    const known = await lstat(path).catch(() => undefined);
    if (known?.isBlockDevice() === true && known.rdev === device.rdev) return;
    await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
    const fresh = `${path}.new`;
    await rm(fresh, { force: true });
    await this.#exec("mknod", [
      "-m",
      "600",
      fresh,
      "b",
      `${majorOf(device.rdev)}`,
      `${minorOf(device.rdev)}`,
    ]);
    await rename(fresh, path);
  }

  /** For writing; what is a link by now is not ours. */
  open(logical: string): Promise<FileHandle> {
    return open(this.path(logical), constants.O_RDWR | constants.O_NOFOLLOW);
  }

  async remove(logical: string): Promise<void> {
    await rm(this.path(logical), { force: true });
  }
}

/** As Linux packs both into one number. */
export function majorOf(device: number): number {
  return Math.floor(device / 0x100) % 0x1000;
}

export function minorOf(device: number): number {
  return (device % 0x100) + Math.floor(device / 0x10_0000) * 0x100;
}
