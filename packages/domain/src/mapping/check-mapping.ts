// Whether a mapping fits the host it is for. Texts are PVE's.
import type { MappingEntry } from "./mapping.ts";

/** As the kernel lists it; numbers as `0x8086`. */
export interface HostPciDevice {
  readonly id: string;
  readonly vendor: string;
  readonly device: string;
  readonly subsystem_vendor?: string;
  readonly subsystem_device?: string;
  /** -1 = none. */
  readonly iommugroup: number;
}

export interface HostUsbDevice {
  readonly busnum: number;
  readonly usbpath?: string;
  readonly vendid: string;
  readonly prodid: string;
}

export interface MappingHost {
  readonly pciDevices: () => readonly HostPciDevice[];
  readonly usbDevices: () => readonly HostUsbDevice[];
  /** undefined = not there. */
  readonly kindOf: (path: string) => "directory" | "other" | undefined;
}

/** undefined = it fits; else why not. */
export function checkPciEntry(name: string, entry: MappingEntry, host: MappingHost): string | undefined {
  for (const [index, given] of (entry.path ?? "").split(";").entries()) {
    const path = /\.[a-f0-9]$/i.test(given) ? given : `${given}.0`;
    const found = host.pciDevices().find(({ id }) => id === path);
    if (found === undefined) return `pci device '${path}' not found`;
    const expected: readonly (readonly [string, string | undefined, string | undefined])[] = [
      ["id", `${found.vendor}:${found.device}`, entry.id],
      // All functions are in the group of the first.
      ...(index > 0 ? [] : [["iommugroup", String(found.iommugroup), textOf(entry.iommugroup)] as const]),
      [
        "subsystem-id",
        found.subsystem_vendor === undefined || found.subsystem_device === undefined
          ? undefined
          : `${found.subsystem_vendor}:${found.subsystem_device}`,
        entry["subsystem-id"],
      ],
    ];
    for (const [property, real, configured] of expected) {
      if (real === undefined && configured === undefined) continue;
      if (configured === undefined) return `missing expected property '${property}' for device '${path}'`;
      if (real === undefined) return `unexpected property '${property}' configured for device '${path}'`;
      const [is, should] = [bare(real), bare(configured)];
      if (is !== should) return `'${property}' does not match for '${name}' (${is} != ${should})`;
    }
  }
  return undefined;
}

export function checkUsbEntry(name: string, entry: MappingEntry, host: MappingHost): string | undefined {
  const { path, id = "" } = entry;
  const idOf = (device: HostUsbDevice): string => `${device.vendid}:${device.prodid}`;
  if (path === undefined)
    return host.usbDevices().some((device) => idOf(device) === id)
      ? undefined
      : `usb device '${id}' not found`;
  const found = host.usbDevices().find(({ busnum, usbpath }) => `${busnum}-${usbpath}` === path);
  if (found === undefined) return `usb device '${path}' not found`;
  return idOf(found) === id ? undefined : `'id' does not match for '${name}' (${idOf(found)} != ${id})`;
}

export function checkDirectoryEntry({ path = "" }: MappingEntry, host: MappingHost): string | undefined {
  const kind = host.kindOf(path);
  if (kind === undefined) return `Path ${path} does not exist`;
  return kind === "directory" ? undefined : `Path ${path} exists, but is not a directory`;
}

function bare(text: string): string {
  return text.replaceAll("0x", "");
}

function textOf(number: number | undefined): string | undefined {
  return number === undefined ? undefined : String(number);
}
