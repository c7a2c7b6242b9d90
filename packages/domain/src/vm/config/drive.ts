// Drives of a VM: reading and printing their property strings, telling kinds apart, walking them in PVE's order.
import { refused } from "../../request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { parsePropertyString, propertyFormatOf, type PropertyRecord } from "../../schema/check.ts";
import { printPropertyString } from "../../schema/property-string.ts";
import { driveKeys, MAX_UNUSED, vmKeySchema } from "./keys.ts";
import type { Drive } from "./property-types.ts";
import type { VmValues } from "./vm-config.ts";
import { without } from "../../guest/guest-config.ts";

const PAIRS_THAT_EXCLUDE = [
  ["mbps", "mbps_rd"],
  ["mbps", "mbps_wr"],
  ["iops", "iops_rd"],
  ["iops", "iops_wr"],
] as const;
/** A burst needs the rate it exceeds; its length needs the burst. */
const NEEDS = ["", "_rd", "_wr"].flatMap((way) => [
  [`mbps${way}_max`, `mbps${way}`],
  [`bps${way}_max_length`, `mbps${way}_max`],
  [`iops${way}_max_length`, `iops${way}_max`],
]) as readonly (readonly [string, string])[];
const NOT_ON_CDROM = ["snapshot", "trans", "format", "heads", "secs", "cyls"] as const;

/** The drive behind a key and its value, or undefined when PVE would not accept it either. */
export function parseDrive(key: string, text: string): Drive | undefined {
  const format = propertyFormatOf(vmKeySchema(key)?.format);
  if (format === undefined) return undefined;
  const parsed = parsePropertyString(format, text, key);
  if (!parsed.ok) return undefined;
  const drive = megabytes(parsed.value);
  if (drive === undefined || !isConsistent(key, drive)) return undefined;
  return drive as unknown as Drive;
}

/** The same, where a drive is expected: throws PVE's text. */
export function requireDrive(key: string, text: string): Drive {
  const drive = parseDrive(key, text);
  if (drive === undefined) throw refused(`unable to parse drive options for '${key}'`);
  return drive;
}

/** Only a CD drive can be empty: why this one cannot, or undefined. */
export function whyNotEmpty(drive: Drive): string | undefined {
  if (drive.file !== "none" || isCdrom(drive)) return undefined;
  return "a disk cannot be 'none': name a volume, or say media=cdrom for an empty CD drive";
}

export function printDrive(key: string, drive: Drive): string {
  const format = propertyFormatOf(vmKeySchema(key)?.format);
  if (format === undefined) throw refused(`invalid drive key: ${key}`);
  return printPropertyString(format, drive as unknown as PropertyRecord);
}

/** Byte rates are kept in megabytes. */
function megabytes(value: PropertyRecord): PropertyRecord | undefined {
  const result = { ...value };
  for (const key of ["bps", "bps_rd", "bps_wr"]) {
    const bytes = result[key];
    if (bytes === undefined) continue;
    if (result[`m${key}`] !== undefined) return undefined;
    delete result[key];
    result[`m${key}`] = Math.round((Number(bytes) / 1024 ** 2) * 1000) / 1000;
  }
  return result;
}

function isConsistent(key: string, drive: PropertyRecord): boolean {
  const set = (name: string) => drive[name] !== undefined && drive[name] !== 0 && drive[name] !== false;
  if (NEEDS.some(([option, needed]) => set(option) && !set(needed))) return false;
  if (PAIRS_THAT_EXCLUDE.some(([all, part]) => set(all) && set(part))) return false;
  if (drive["media"] !== "cdrom") return true;
  return !NOT_ON_CDROM.some(set) && !key.startsWith("virtio");
}

/** The volume or path of a drive's value, without checking the rest. */
export function driveFile(text: string): string | undefined {
  for (const part of text.split(",")) {
    if (!part.includes("=")) return part;
    const named = /^(?:file|volume)=(.+)$/.exec(part)?.[1];
    if (named !== undefined) return named;
  }
  return undefined;
}

export function isCloudinitVolume(volid: string): boolean {
  return /[:/](?:vm-\d+-)?cloudinit(?:\.(?:raw|qcow|qcow2|qed|vmdk|cloop))?$/.test(volid);
}

/** swtpm reads and writes plain bytes only: whatever is asked for, the volume is raw. */
export function isTpmState(key: string): boolean {
  return key === "tpmstate0";
}

/**
 * Whether the QEMU of a running VM has this drive open: a TPM's state is its own program's, and variables of UEFI are
 * nobody's while the VM runs with another firmware.
 */
export function isInQemu(values: VmValues, key: string): boolean {
  return !isTpmState(key) && (key !== "efidisk0" || values["bios"] === "ovmf");
}

export function isCdrom(drive: Drive, excludeCloudinit = false): boolean {
  if (excludeCloudinit && isCloudinitVolume(drive.file)) return false;
  return drive.media === "cdrom";
}

/** The drives of a configuration in PVE's order; values that are no drive are skipped. */
export function listDrives(values: VmValues): { readonly key: string; readonly drive: Drive }[] {
  const found: { key: string; drive: Drive }[] = [];
  for (const key of driveKeys) {
    const text = values[key];
    const drive = text === undefined ? undefined : parseDrive(key, text);
    if (drive !== undefined) found.push({ key, drive });
  }
  return found;
}

/** Drives with data of the guest: no CD drives. */
export function listDisks(values: VmValues): { readonly key: string; readonly drive: Drive }[] {
  return listDrives(values).filter(({ drive }) => !isCdrom(drive));
}

export function findCloudinitDrive(values: VmValues): string | undefined {
  return listDrives(values).find(({ drive }) => isCloudinitVolume(drive.file))?.key;
}

/** Keeps a detached volume as unusedN, lowest free N. A volume listed already is not added again. */
export function addUnused(values: VmValues, volid: string): VmValues {
  // Made anew whenever it is needed, so nothing is worth keeping.
  if (/vm-\d+-cloudinit/.test(volid)) return values;
  let free: string | undefined;
  for (let index = MAX_UNUSED - 1; index >= 0; index--) {
    const key = `unused${index}`;
    if (values[key] === volid) return values;
    if (values[key] === undefined) free = key;
  }
  if (free === undefined)
    throw new AppError("capacity.exceeded", "Too many unused volumes - please delete them first.");
  return { ...values, [free]: volid };
}

/** Takes a drive out of the configuration; a disk's volume stays as unusedN. */
export function detachDrive(values: VmValues, key: string): VmValues {
  const text = values[key];
  if (text === undefined) return values;
  const drive = parseDrive(key, text);
  const rest = without(values, key);
  return drive === undefined || isCdrom(drive, true) ? rest : addUnused(rest, drive.file);
}
