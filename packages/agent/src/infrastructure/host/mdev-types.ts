// Kinds of mediated devices that a PCI device can be divided into.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";

export interface MdevType {
  readonly [key: string]: unknown;
  readonly type: string;
  readonly available: number;
  readonly description: string;
  readonly name?: string;
}

export function mdevFolder(sys: string, device: string): string {
  return join(sys, "bus/pci/devices", device, "mdev_supported_types");
}

export function listMdevTypes(device: string, sys = "/sys"): MdevType[] {
  const folder = mdevFolder(sys, device);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .toSorted()
    .map((type) => {
      const read = (file: string): string | undefined => {
        const path = join(folder, type, file);
        return existsSync(path) ? readFileSync(path, "utf8").trim() : undefined;
      };
      const name = read("name");
      return {
        type,
        available: Number(read("available_instances") ?? 0),
        description: read("description") ?? "",
        ...given({ name }),
      };
    });
}
