// PCI devices as the kernel lists them.
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename, join } from "node:path";

export interface PciDevice {
  readonly [key: string]: unknown;
  readonly id: string;
  readonly class: string;
  readonly vendor: string;
  readonly device: string;
  /** -1 = none. */
  readonly iommugroup: number;
}

export function listPciDevices(folder = "/sys/bus/pci/devices"): PciDevice[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .toSorted()
    .map((id) => {
      const read = (name: string): string => readOr(join(folder, id, name), "0x0000");
      const group = join(folder, id, "iommu_group");
      return {
        id,
        class: read("class"),
        vendor: read("vendor"),
        device: read("device"),
        subsystem_vendor: read("subsystem_vendor"),
        subsystem_device: read("subsystem_device"),
        iommugroup: existsSync(group) ? Number(basename(readlinkSync(group))) : -1,
      };
    });
}

function readOr(path: string, otherwise: string): string {
  return existsSync(path) ? readFileSync(path, "utf8").trim() : otherwise;
}
