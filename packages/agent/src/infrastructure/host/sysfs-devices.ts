// PCI devices go to guests through vfio, USB devices through their device files. All by reading and writing sysfs.
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { HostDevices } from "@gpve/domain/vm/host/host-devices.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { mdevFolder } from "./mdev-types.ts";
import { listUsbDevices } from "./usb-devices.ts";

/** Peripheral device types, as an inquiry answers them. */
const SCSI_KINDS: Readonly<Record<string, "disk" | "tape">> = { 0: "disk", 1: "tape" };

export interface SysfsDevicesDeps {
  readonly exec: Exec;
  /** A made-up host in tests. */
  readonly sys?: string;
  readonly dev?: string;
}

export class SysfsDevices implements HostDevices {
  readonly #exec: Exec;
  readonly #sys: string;
  readonly #dev: string;

  constructor({ exec, sys = "/sys", dev = "/dev" }: SysfsDevicesDeps) {
    this.#exec = exec;
    this.#sys = sys;
    this.#dev = dev;
  }

  async takePci(addresses: readonly string[]): Promise<readonly string[]> {
    if (addresses.length === 0) return [];
    this.#requireIommu();
    const files = new Set<string>([join(this.#dev, "vfio/vfio")]);
    for (const address of addresses) {
      if (!existsSync(this.#device(address))) throw unusable(`no pci device info for device '${address}'`);
      await this.#bindGroup(address);
      const reset = join(this.#device(address), "reset");
      if (existsSync(reset) && !(await written(reset, "1")))
        throw unusable(`can't reset PCI device '${address}'`);
      files.add(join(this.#dev, "vfio", this.#group(address)));
    }
    return [...files];
  }

  async makeMdev(parents: readonly string[], uuid: string, type: string): Promise<string> {
    this.#requireIommu();
    let why = unusable(`no device for the mediated device '${type}'`);
    for (const parent of parents) {
      try {
        await this.#makeMdevOn(parent, uuid, type);
        return join(this.#dev, "vfio", this.#groupOf(join(this.#sys, "bus/mdev/devices", uuid)));
      } catch (err) {
        why = err instanceof AppError ? err : unusable(messageOf(err));
      }
    }
    throw why;
  }

  async removeMdev(uuid: string): Promise<void> {
    const remove = join(this.#sys, "bus/mdev/devices", uuid, "remove");
    if (existsSync(remove)) await written(remove, "1");
  }

  isCharacterDevice(path: string): boolean {
    return statSync(path, { throwIfNoEntry: false })?.isCharacterDevice() === true;
  }

  scsiKind(path: string): "disk" | "tape" | undefined {
    const info = statSync(path, { throwIfNoEntry: false });
    if (info === undefined || !(info.isBlockDevice() || info.isCharacterDevice())) return undefined;
    const major = (info.rdev >> 8) & 0xfff;
    const minor = (info.rdev & 0xff) | ((info.rdev >> 12) & 0xfff00);
    const kind = info.isBlockDevice() ? "block" : "char";
    const type = join(this.#sys, "dev", kind, `${major}:${minor}`, "device/type");
    return existsSync(type) ? SCSI_KINDS[readFileSync(type, "utf8").trim()] : undefined;
  }

  usbFiles(address: string): readonly string[] {
    const number = (value: number): string => String(value).padStart(3, "0");
    return listUsbDevices(this.#sys)
      .filter(
        ({ vendid, prodid, busnum, usbpath }) =>
          `${vendid}:${prodid}` === address.replaceAll("0x", "").toLowerCase() ||
          (usbpath !== undefined && `${busnum}-${usbpath}` === address),
      )
      .map(({ busnum, devnum }) => join(this.#dev, "bus/usb", number(busnum), number(devnum)));
  }

  async #makeMdevOn(parent: string, uuid: string, type: string): Promise<void> {
    const types = mdevFolder(this.#sys, parent);
    if (!existsSync(types)) throw unusable(`pci device '${parent}' does not support mediated devices`);
    const folder = join(types, type);
    if (!existsSync(folder)) throw unusable(`pci device '${parent}' has no type '${type}'`);
    const existing = join(this.#device(parent), uuid);
    if (existsSync(existing)) {
      if (basename(readlinkSync(join(existing, "mdev_type"))) === type) return;
      throw unusable(`mdev instance '${uuid}' already exists, but type is not '${type}'`);
    }
    if (!(Number(readFileSync(join(folder, "available_instances"), "utf8")) > 0))
      throw unusable(`pci device '${parent}' has no available instances of '${type}'`);
    if (!(await written(join(folder, "create"), uuid)))
      throw unusable(`could not create '${type}' for pci device '${parent}'`);
  }

  /** A group is the smallest thing that vfio can isolate; bridges in it stay the host's. */
  async #bindGroup(address: string): Promise<void> {
    const vfio = join(this.#sys, "bus/pci/drivers/vfio-pci");
    if (!existsSync(vfio))
      await this.#exec("modprobe", ["vfio-pci"]).catch((err: unknown) => ignore(err, "told just below"));
    if (!existsSync(vfio)) throw unusable("Cannot find vfio-pci module!");
    const members = join(this.#device(address), "iommu_group/devices");
    if (!existsSync(members)) throw unusable(`can't unbind/bind PCI group to VFIO '${address}'`);
    for (const member of readdirSync(members)) {
      const device = this.#device(member);
      if (existsSync(join(device, "pci_bus")) || existsSync(join(vfio, member))) continue;
      await written(join(device, "driver_override"), "vfio-pci");
      await written(join(device, "driver/unbind"), member);
      await written(join(this.#sys, "bus/pci/drivers_probe"), member);
      if (!existsSync(join(vfio, member))) throw unusable(`Cannot bind ${member} to vfio`);
    }
  }

  #requireIommu(): void {
    const folder = join(this.#sys, "class/iommu");
    if (!existsSync(folder) || readdirSync(folder).length === 0)
      throw unusable("cannot prepare PCI pass-through, IOMMU not present");
  }

  #device(address: string): string {
    return join(this.#sys, "bus/pci/devices", address);
  }

  #group(address: string): string {
    return this.#groupOf(this.#device(address));
  }

  #groupOf(device: string): string {
    return basename(readlinkSync(join(device, "iommu_group")));
  }
}

async function written(path: string, text: string): Promise<boolean> {
  if (!existsSync(path)) return false;
  try {
    await writeFile(path, text);
    return true;
  } catch (err) {
    ignore(err, "the kernel refused; whoever asked says what that means");
    return false;
  }
}

function unusable(message: string): AppError {
  return new AppError("feature.unsupported", message, { pveStatus: 500 });
}
