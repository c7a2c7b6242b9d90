// The configuration inside a backup archive -> the configuration of the restored VM, line by line, so that comments
// and order stay as they were.
import { splitList } from "../../schema/list.ts";
import { parseDrive, printDrive } from "../config/drive.ts";
import type { NetDevice, Smbios1 } from "../config/property-types.ts";
import { printVmProperty, readVmProperty } from "../config/vm-properties.ts";

export interface RestoreConfigOptions {
  /** Drive key -> the volume it was restored to. */
  readonly volumes: Readonly<Record<string, string>>;
  /** New MAC addresses and SMBIOS uuid: the original keeps running. */
  readonly unique: boolean;
  readonly newMac: () => string;
  readonly newUuid: () => string;
}

export function restoreConfigText(text: string, options: RestoreConfigOptions): string {
  const cookie = { nets: 0 };
  // Each line with its newline, which the last may lack: lines that stay are kept to the byte.
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  return lines.map((line) => restoreLine(line, options, cookie)).join("");
}

/** Hints of the backup: which archive member holds which drive. */
export function readBackupMap(
  text: string,
): { readonly key: string; readonly device: string; readonly storage: string; readonly format: string }[] {
  return [...text.matchAll(/^#qmdump#map:(\S+?):(\S+?):(\S*?):(\S*?):$/gm)].map(
    ([, key = "", device = "", storage = "", format = ""]) => ({ key, device, storage, format }),
  );
}

function restoreLine(line: string, options: RestoreConfigOptions, cookie: { nets: number }): string {
  if (/^(?:#qmdump#|#vzdump#|lock:|unused\d+:|parent:)/.test(line)) return "";
  const [, vlan, devices] = /^vlan(\d+):\s*(\S+)\s*$/.exec(line) ?? [];
  if (vlan !== undefined && devices !== undefined) return oldNets(vlan, devices, options, cookie);
  const [, key, value] = /^([a-z]+\d+):\s*(\S+)\s*$/.exec(line) ?? [];
  if (key !== undefined && value !== undefined) {
    if (/^(?:ide|scsi|virtio|sata|efidisk|tpmstate)\d+$/.test(key))
      return restoreDrive(line, key, value, options);
    if (/^net\d+$/.test(key) && options.unique) return `${key}: ${renewMac(value, options)}\n`;
  }
  const smbios = /^smbios1: (.*)/.exec(line)?.[1];
  if (smbios !== undefined && options.unique) return `smbios1: ${renewUuid(smbios.trim(), options)}\n`;
  const generation = /^vmgenid: (.*)/.exec(line)?.[1];
  if (generation !== undefined) return `vmgenid: ${generation === "0" ? "0" : options.newUuid()}\n`;
  return line;
}

function restoreDrive(line: string, key: string, value: string, options: RestoreConfigOptions): string {
  const drive = parseDrive(key, value);
  if (drive?.backup === false) return `#${line}`;
  const file = Object.hasOwn(options.volumes, key) ? options.volumes[key] : undefined;
  if (file === undefined) return line;
  // A drive that cannot be read must not go on naming the volume of another VM.
  const { format: _gone, ...rest } = drive ?? { file };
  return `${key}: ${printDrive(key, { ...rest, file })}\n`;
}

function renewMac(value: string, options: RestoreConfigOptions): string {
  return printVmProperty("net", { ...readVmProperty("net", value), macaddr: options.newMac() });
}

function renewUuid(value: string, options: RestoreConfigOptions): string {
  let known: Smbios1 = {};
  try {
    known = readVmProperty("smbios1", value);
  } catch {
    // Nothing of it can be kept; the uuid is new anyway.
  }
  return printVmProperty("smbios1", { ...known, uuid: options.newUuid() });
}

/** `vlan0: e1000=MAC` of the first releases. */
function oldNets(
  vlan: string,
  devices: string,
  options: RestoreConfigOptions,
  cookie: { nets: number },
): string {
  let text = "";
  for (const device of splitList(devices)) {
    const [model = "", mac] = device.split("=");
    const macaddr = mac === undefined || mac === "" || options.unique ? options.newMac() : mac;
    const net: NetDevice = { model, bridge: `vmbr${vlan}`, macaddr };
    text += `net${cookie.nets++}: ${printVmProperty("net", net)}\n`;
  }
  return text;
}
