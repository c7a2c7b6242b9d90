// The configuration inside a backup archive -> the configuration of the restored VM, line by line, so that comments
// and order stay as they were.
import { splitList } from "../schema/list.ts";
import { parseDrive, printDrive } from "./drive.ts";
import type { NetDevice } from "./property-types.ts";
import { printVmProperty, readVmProperty } from "./vm-properties.ts";

export interface RestoreConfigOptions {
  /** Drive key -> the volume it was restored to. */
  readonly volumes: Readonly<Record<string, string>>;
  /** New MAC addresses and SMBIOS uuid: the original keeps running. */
  readonly unique: boolean;
  readonly newMac: () => string;
  readonly newUuid: () => string;
}

export function restoreConfigText(text: string, options: RestoreConfigOptions): string {
  const lines = text.split("\n");
  const cookie = { nets: 0 };
  // A file ends with a newline; what follows it is no line.
  const last = lines.at(-1) === "" ? lines.length - 1 : lines.length;
  return lines
    .slice(0, last)
    .map((line) => restoreLine(line, options, cookie))
    .join("");
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
    if (key === "smbios1" && options.unique) return `${key}: ${renewUuid(value, options)}\n`;
  }
  const generation = /^vmgenid: (.*)/.exec(line)?.[1];
  if (generation !== undefined) return `vmgenid: ${generation === "0" ? "0" : options.newUuid()}\n`;
  return `${line}\n`;
}

function restoreDrive(line: string, key: string, value: string, options: RestoreConfigOptions): string {
  const drive = parseDrive(key, value);
  if (drive?.backup === false) return `#${line}\n`;
  const file = options.volumes[key];
  if (drive === undefined || file === undefined) return `${line}\n`;
  const { format: _gone, ...rest } = drive;
  return `${key}: ${printDrive(key, { ...rest, file })}\n`;
}

function renewMac(value: string, options: RestoreConfigOptions): string {
  const net = readVmProperty("net", value);
  return printVmProperty("net", net.macaddr === undefined ? net : { ...net, macaddr: options.newMac() });
}

function renewUuid(value: string, options: RestoreConfigOptions): string {
  return printVmProperty("smbios1", { ...readVmProperty("smbios1", value), uuid: options.newUuid() });
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
