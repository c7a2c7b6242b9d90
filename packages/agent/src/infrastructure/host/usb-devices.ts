// USB devices as the kernel lists them.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";

export interface UsbHostDevice {
  readonly [key: string]: unknown;
  readonly busnum: number;
  readonly devnum: number;
  readonly class: number;
  readonly vendid: string;
  readonly prodid: string;
  readonly speed: string;
  /** Depth below the root hub. */
  readonly level: number;
  readonly port: number;
  /** "2.1": ports from the root hub on; a root hub itself has none. */
  readonly usbpath?: string;
}

const NAME = /^(?:usb\d+|\d+-(\d+(?:\.\d+)*))$/;

export function listUsbDevices(sys = "/sys"): UsbHostDevice[] {
  const folder = join(sys, "bus/usb/devices");
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .toSorted()
    .flatMap((name) => {
      const found = NAME.exec(name);
      if (found === null) return [];
      const read = (file: string): string | undefined => {
        const path = join(folder, name, file);
        return existsSync(path) ? readFileSync(path, "utf8").trim() : undefined;
      };
      const usbpath = found[1];
      const ports = usbpath?.split(".") ?? [];
      const optional = {
        manufacturer: read("manufacturer"),
        product: read("product"),
        serial: read("serial"),
      };
      return [
        {
          busnum: Number(read("busnum") ?? 0),
          devnum: Number(read("devnum") ?? 0),
          class: Number.parseInt(read("bDeviceClass") ?? "0", 16),
          vendid: read("idVendor") ?? "",
          prodid: read("idProduct") ?? "",
          speed: read("speed") ?? "",
          level: ports.length,
          port: Math.max(0, Number(ports.at(-1) ?? 1) - 1),
          ...given({ usbpath }),
          ...Object.fromEntries(Object.entries(optional).filter(([, text]) => text !== undefined)),
        },
      ];
    });
}

export function pathKind(path: string): "directory" | "other" | undefined {
  const info = statSync(path, { throwIfNoEntry: false });
  if (info === undefined) return undefined;
  return info.isDirectory() ? "directory" : "other";
}
