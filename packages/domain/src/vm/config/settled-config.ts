// What a VM's configuration becomes when a declaration is applied to it again: what was asked for and is there
// already stays as it is, so that the second time changes nothing.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { windowsVersion } from "../argv/machine/versions.ts";
import { formatSize } from "../../schema/size.ts";
import { parseVolumeId } from "../../storage/volume-id.ts";
import { MOST_CPU_UNITS } from "../change/config-update.ts";
import { dropFromBootOrder } from "./boot-order.ts";
import { parseDrive, printDrive } from "./drive.ts";
import { isDriveKey } from "./keys.ts";
import type { Drive } from "./property-types.ts";
import { storedTags } from "./tags.ts";
import { readNet } from "./vm-network.ts";
import { printVmProperty, readBootDevices, readVmProperty } from "./vm-properties.ts";
import type { VmValues } from "./vm-config.ts";

/** Filled in when a VM is made, or by operations: a declaration that does not name them has nothing against them. */
const KEPT = new Set(["boot", "digest", "lock", "meta", "parent", "smbios1", "template", "vmgenid"]);
const GIB = 1024 ** 3;

/** `wanted` names every key that shall be set; disks to be made and addresses to be drawn are looked up in `current`. */
export function settledConfig(wanted: VmValues, current: VmValues): VmValues {
  const result: Record<string, string> = {};
  for (const [key, text] of Object.entries(wanted)) {
    const found = current[key];
    result[key] = found === undefined ? text : settledValue(key, text, found);
  }
  for (const [key, text] of Object.entries(current)) {
    if (KEPT.has(key) || /^unused\d+$/.test(key)) result[key] ??= text;
    // Written down when the VM was made, and asked for by nobody.
    if (key === "machine" && windowsVersion(wanted["ostype"]) > 0 && isPinned("pc", text))
      result[key] ??= text;
  }
  if (wanted["boot"] !== undefined) return result;
  // A device that is taken out leaves the order that nobody named; its last one is the node's to take out.
  const order = readBootDevices(current["boot"]) ?? [];
  const gone = order.filter((device) => result[device] === undefined);
  return gone.length === order.length ? result : gone.reduce<VmValues>(dropFromBootOrder, result);
}

function settledValue(key: string, wanted: string, current: string): string {
  if (wanted === current) return current;
  if (isDriveKey(key)) return settledDrive(key, wanted, current);
  if (/^net\d+$/.test(key)) return settledNet(key, wanted, current);
  if (key === "smbios1") return settledSmbios(wanted, current);
  if (key === "vmgenid") return wanted === "1" ? current : wanted;
  if (key === "tags") return storedTags(wanted) === storedTags(current) ? current : wanted;
  if (key === "cpuunits")
    return Number(current) === Math.min(Number(wanted), MOST_CPU_UNITS) ? current : wanted;
  if (key === "machine" && isPinned(wanted, current)) return current;
  // Comments of a configuration file end with a newline.
  if (key === "description") return wanted.trimEnd() === current.trimEnd() ? current : wanted;
  return wanted;
}

/** `q35` was asked for, and written down with its version for a Windows guest. */
function isPinned(wanted: string, current: string): boolean {
  const [ask, has] = [wanted, current].map((text) => readVmProperty("machine", text, "machine"));
  const family = { pc: "pc-i440fx", q35: "pc-q35", virt: "virt" }[ask?.type ?? "pc"];
  if (family === undefined || has?.type?.startsWith(`${family}-`) !== true) return false;
  return printVmProperty("machine", { ...ask, type: has.type }) === printVmProperty("machine", has);
}

function settledDrive(key: string, wanted: string, current: string): string {
  const [ask, has] = [parseDrive(key, wanted), parseDrive(key, current)];
  if (ask === undefined || has === undefined) return wanted;
  if (ask.file !== has.file && !isMade(key, ask, has)) return wanted;
  const { "import-from": _source, format: _format, ...options } = ask as Drive & { "import-from"?: string };
  const text = printDrive(key, {
    ...options,
    file: has.file,
    ...(has.size === undefined || (ask.file === has.file && ask.size !== undefined)
      ? {}
      : { size: has.size }),
    ...(has.media === undefined ? {} : { media: ask.media ?? has.media }),
  });
  return text === printDrive(key, has) ? current : text;
}

/** Whether a drive is what `storage:GIB` or `storage:cloudinit` once asked for. */
function isMade(key: string, ask: Drive, has: Drive): boolean {
  const [from, to] = [parseVolumeId(ask.file), parseVolumeId(has.file)];
  if (from === undefined || to === undefined || from.storage !== to.storage) return false;
  const isCloudinit = /-cloudinit(?:\.|$)/.test(to.volname);
  if (from.volname === "cloudinit") return isCloudinit;
  if (!/^\d+(?:\.\d+)?$/.test(from.volname) || isCloudinit || has.media === "cdrom") return false;
  // Firmware decides the size of its own disks.
  const bytes = /^(?:efidisk|tpmstate)/.test(key) ? 0 : Number(from.volname) * GIB;
  if (has.size !== undefined && bytes > has.size)
    throw new AppError(
      "request.invalid",
      `${key} has ${formatSize(has.size)}, not ${from.volname}G: applying does not grow disks; resize it, then apply again`,
    );
  return true;
}

function settledNet(key: string, wanted: string, current: string): string {
  const [ask, has] = [readNet(key, wanted), readNet(key, current)];
  // Whoever changes a card without naming its address would get a new one.
  const keeps = ask.macaddr === undefined && has.macaddr !== undefined;
  const text = printVmProperty("net", keeps ? { ...ask, macaddr: has.macaddr } : ask);
  return text === printVmProperty("net", has) ? current : text;
}

function settledSmbios(wanted: string, current: string): string {
  const [ask, has] = [
    readVmProperty("smbios1", wanted, "smbios1"),
    readVmProperty("smbios1", current, "smbios1"),
  ];
  const text = printVmProperty("smbios1", { ...given({ uuid: has.uuid }), ...ask });
  return text === printVmProperty("smbios1", has) ? current : text;
}
