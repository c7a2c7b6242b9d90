// Which devices a VM boots from, and how that list follows the devices that come and go.
import { refused } from "../../request/failures.ts";
import { isCdrom, listDrives } from "./drive.ts";
import type { VmValues } from "./vm-config.ts";
import { printBootDevices, readBootDevices, readVmProperty } from "./vm-properties.ts";

// QEMU takes lower numbers first; 100 leaves room for devices added by hand in `args`.
const FIRST_INDEX = 100;
const MAX_NETS = 32;

/** First disk, first CD drive, first NIC: what a new VM boots from. */
export function defaultBootDevices(values: VmValues): string[] {
  const drives = listDrives(values).filter(({ key }) => !/^(?:efidisk|tpmstate)/.test(key));
  const disk = drives.find(({ drive }) => !isCdrom(drive))?.key;
  const cd = drives.find(({ drive }) => isCdrom(drive))?.key;
  return [disk, cd, netKeys(values)[0]].filter((key) => key !== undefined);
}

/** Device key -> QEMU boot index, from `boot: order=…` or the old letters and `bootdisk`. */
export function bootIndexes(values: VmValues): ReadonlyMap<string, number> {
  const text = values["boot"];
  const boot = text === undefined ? undefined : readVmProperty("boot", text, "boot");
  if (boot === undefined || boot.legacy !== undefined) return legacyIndexes(values, boot?.legacy ?? "cdn");
  const devices = readBootDevices(text) ?? [];
  return new Map(devices.map((device, index) => [device, FIRST_INDEX + index]));
}

/** c = disk named by `bootdisk`, d = CD drives, n = NICs; the letters' order is the order of the groups. */
function legacyIndexes(values: VmValues, letters: string): ReadonlyMap<string, number> {
  const next = new Map(
    Array.from(letters).map((letter, index): [string, number] => [letter, (index + 1) * FIRST_INDEX]),
  );
  const indexes = new Map<string, number>();
  const take = (letter: string): number | undefined => {
    const index = next.get(letter);
    if (index !== undefined) next.set(letter, index + 1);
    return index;
  };
  for (const { key, drive } of listDrives(values)) {
    const cd = isCdrom(drive, true);
    const index = take(cd ? "d" : "c");
    if (index !== undefined && (cd || values["bootdisk"] === key)) indexes.set(key, index);
  }
  for (const key of netKeys(values)) {
    const index = take("n");
    if (index !== undefined) indexes.set(key, index);
  }
  return indexes;
}

/** Refuses an order that names a device the VM does not have. */
export function checkBootOrder(values: VmValues): void {
  for (const device of readBootDevices(values["boot"]) ?? []) {
    if (values[device] !== undefined) continue;
    // The stray quote is PVE's; clients match on the text.
    throw refused(`invalid bootorder: device '${device}' does not exist'`);
  }
}

/** A device that is removed leaves the order. */
export function dropFromBootOrder(values: VmValues, device: string): VmValues {
  const devices = readBootDevices(values["boot"]);
  if (devices === undefined || !devices.includes(device)) return values;
  return { ...values, boot: printBootDevices(devices.filter((each) => each !== device)) };
}

/** A CD drive that is added goes to the end of an order that is kept by hand. */
export function appendToBootOrder(values: VmValues, device: string): VmValues {
  const devices = readBootDevices(values["boot"]);
  if (devices === undefined || devices.includes(device)) return values;
  return { ...values, boot: printBootDevices([...devices, device]) };
}

function netKeys(values: VmValues): string[] {
  return Array.from({ length: MAX_NETS }, (_, index) => `net${index}`).filter(
    (key) => values[key] !== undefined,
  );
}
