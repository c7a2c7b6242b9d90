// Formats whose rule does not fit a pattern, and the texts of those whose rule does.
// A rule returns the detail behind "invalid format - " (with PVE's closing newline), or nothing when the value fits.
import roles from "@gpve/contracts/gen/roles.json" with { type: "json" };
import {
  isCidr,
  isCidrv4,
  isCidrv6,
  isDnsName,
  isHostAndPort,
  isIp,
  isIpv4,
  isIpv4Mask,
  isIpv6,
} from "./address.ts";
import { parseCalendarEvent } from "../calendar/calendar-event.ts";
import { contentTypes } from "../storage/content.ts";
import { firewallRules } from "./format-rules-firewall.ts";
import { splitList } from "./list.ts";
import { compilePattern } from "./pattern.ts";
import { parseSize } from "./size.ts";

export type FormatRule = (value: string) => string | undefined;

const privileges = new Set<string>(roles.privileges);
const STORAGE_ID = /^[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]$/;
const BRIDGE_ID = /^[-_.\w]+$/;
const VOLUME_ID = /^[a-z][a-z0-9\-_.]*[a-z0-9]:.+$/i;
const EMAIL_USER = String.raw`[\w+\-~]+(?:\.[\w+\-~]+)*`;
const EMAIL = new RegExp(String.raw`^${EMAIL_USER}@[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*$`);
const EMAIL_OR_USER = new RegExp(`^${EMAIL_USER}$`);
/** PVE's, and one of our own. */
const CONTENT_TYPES: ReadonlySet<string> = new Set(contentTypes);
const HOTPLUG_FEATURES = new Set(["network", "disk", "cpu", "memory", "usb", "cloudinit"]);
const BOOT_DEVICES: Readonly<Record<string, number>> = {
  ide: 3,
  sata: 5,
  scsi: 30,
  virtio: 15,
  net: 31,
  usb: 13,
  hostpci: 15,
};

function unless(fits: (value: string) => boolean, detail: string | ((value: string) => string)): FormatRule {
  return (value) => (fits(value) ? undefined : typeof detail === "string" ? detail : detail(value));
}

const invalid = (what: string) => `value does not look like a valid ${what}\n`;

function userid(value: string): string | undefined {
  if (value.length < 3) return `user name '${value}' is too short\n`;
  if (value.length > 64) return `user name '${value}' is too long (${value.length} > 64)\n`;
  if (/^[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+$/.test(value)) return undefined;
  return `value '${value}' does not look like a valid user name\n`;
}

function vlanIdOrRange(value: string): string | undefined {
  const match = /^(\d+)(?:-(\d+))?$/.exec(value);
  if (match === null) return `invalid VLAN configuration '${value}'\n`;
  for (const tag of [match[1], match[2]]) {
    if (tag !== undefined && (Number(tag) < 2 || Number(tag) > 4094)) return `invalid VLAN tag '${tag}'\n`;
  }
  if (match[2] !== undefined && Number(match[1]) >= Number(match[2]))
    return `VLAN range must go from lower to higher tag '${value}'\n`;
  return undefined;
}

function idPair(isId: (id: string) => boolean, detail: (id: string) => string): FormatRule {
  return (value) => {
    if (value === "1") return undefined;
    const pair = /^([^:]+):([^:]+)$/.exec(value);
    const ids = pair === null ? [value] : [pair[1] ?? "", pair[2] ?? ""];
    const bad = ids.find((id) => !isId(id));
    return bad === undefined ? undefined : `entry '${value}' contains invalid ID - ${detail(bad)}\n\n`;
  };
}

function isStartupOrder(value: string): boolean {
  if (value === "" || value === "0") return false;
  return value.split(",").every((part) => /^\s*$/.test(part) || /^(?:(?:order=)?|up=|down=)\d+$/.test(part));
}

function isCpuset(value: string): boolean {
  const ranges = value.split(",");
  return ranges.every((range) => {
    const match = /^\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?$/.exec(range);
    return match !== null && (match[2] === undefined || Number(match[1]) <= Number(match[2]));
  });
}

function isBootDevice(value: string): boolean {
  const match = /^([a-z]+)(0|[1-9]\d*)$/.exec(value);
  const last = match === null ? undefined : BOOT_DEVICES[match[1] ?? ""];
  return last !== undefined && Number(match?.[2]) <= last;
}

function isPhysBits(value: string): boolean {
  return value === "host" || (/^\d+$/.test(value) && Number(value) >= 8 && Number(value) <= 64);
}

function isHotplug(value: string): boolean {
  return value === "0" || value === "1" || splitList(value).every((name) => HOTPLUG_FEATURES.has(name));
}

function isDirOverride(value: string): boolean {
  const match = /^([a-z]+)=(.+)$/.exec(value);
  const path = match?.[2] ?? "";
  return (
    match !== null &&
    CONTENT_TYPES.has(match[1] ?? "") &&
    path.length < 1023 &&
    !path.includes("..") &&
    !path.endsWith(".") &&
    path.split("/").every((part) => part.length < 255)
  );
}

/** UTC, or a zone name as in tzdata (`Europe/Vienna`); whether the host knows it is the host's to say. */
function isTimezone(value: string): boolean {
  return value === "UTC" || /^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+){1,2}$/.test(value);
}

function calendarEvent(value: string): string | undefined {
  const parsed = parseCalendarEvent(value);
  return parsed.ok ? undefined : `invalid calendar event '${value}' - ${parsed.error}\n\n`;
}

function isPem(value: string): boolean {
  return /^\s*-----BEGIN ([^-]+)-----\s[\s\S]+?-----END \1-----\s*$/.test(value);
}

function isPemChain(value: string): boolean {
  const blocks = value.trim().split(/(?<=-----END CERTIFICATE-----)\s+/);
  return blocks.every((block) => /^-----BEGIN CERTIFICATE-----\s/.test(block) && isPem(block));
}

function commandBatch(value: string): string | undefined {
  try {
    const commands: unknown = JSON.parse(value);
    return Array.isArray(commands) ? undefined : "commands is not a valid array of commands\n";
  } catch (error) {
    return `commands param did not contain valid JSON: ${error instanceof Error ? error.message : ""}\n`;
  }
}

const sdnId = unless(
  (value) => /^[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?$/.test(value),
  (value) => `invalid ID '${value}'\n`,
);
const volumeId: FormatRule = (value) =>
  VOLUME_ID.test(value) ? undefined : `unable to parse volume ID '${value}'\n`;

/** Rules written by hand; everything else comes from gen/named-formats.json with a text from `formatTexts`. */
export const formatRules: ReadonlyMap<string, FormatRule> = new Map<string, FormatRule>([
  ["string", () => undefined],
  ["regex", () => undefined],
  ["ipv4", unless(isIpv4, invalid("IPv4 address"))],
  ["ipv6", unless(isIpv6, invalid("IPv6 address"))],
  ["ip", unless(isIp, invalid("IP address"))],
  ["ipv4mask", unless(isIpv4Mask, invalid("IP netmask"))],
  ["CIDRv4", unless(isCidrv4, invalid("IPv4 CIDR network"))],
  ["CIDRv6", unless(isCidrv6, invalid("IPv6 CIDR network"))],
  ["CIDR", unless(isCidr, invalid("CIDR network"))],
  ["FullRangeCIDR", unless((value) => isCidr(value, 0), invalid("CIDR network"))],
  [
    "pve-ipv4-config",
    unless((v) => v === "dhcp" || v === "manual" || isCidrv4(v), invalid("ipv4 network configuration")),
  ],
  [
    "pve-ipv6-config",
    unless((v) => /^(?:auto|dhcp|manual)$/.test(v) || isCidrv6(v), invalid("ipv6 network configuration")),
  ],
  ["IPorCIDR", unless((v) => isIp(v) || isCidr(v, 0), invalid("IP address or CIDR network"))],
  ["dns-name", unless(isDnsName, invalid("DNS name"))],
  [
    "address",
    unless(
      (v) => isIp(v) || isDnsName(v),
      (v) => `value does not look like a valid address: ${v}\n`,
    ),
  ],
  ["email", unless((v) => EMAIL.test(v), invalid("email address"))],
  [
    "email-or-username",
    unless((v) => EMAIL.test(v) || EMAIL_OR_USER.test(v), invalid("email address or user name")),
  ],
  [
    "disk-size",
    unless(
      (v) => parseSize(v) !== undefined,
      (v) => `value does not look like a valid disk size: ${v}\n`,
    ),
  ],
  ["pve-vlan-id-or-range", vlanIdOrRange],
  ["pve-startup-order", unless(isStartupOrder, "unable to parse startup options\n")],
  ["timezone", unless(isTimezone, (v) => `invalid time zone '${v}'\n`)],
  [
    "pve-ct-timezone",
    unless(
      (v) => v === "host" || isTimezone(v),
      (v) => `invalid time zone '${v}'\n`,
    ),
  ],
  [
    "storage-pair",
    idPair(
      (id) => STORAGE_ID.test(id),
      (id) => `storage ID '${id}' contains illegal characters\n`,
    ),
  ],
  [
    "bridge-pair",
    idPair(
      (id) => BRIDGE_ID.test(id),
      (id) => `invalid bridge ID '${id}'\n`,
    ),
  ],
  ["pve-userid", userid],
  [
    "pve-priv",
    unless(
      (v) => privileges.has(v),
      (v) => `invalid privilege '${v}'\n`,
    ),
  ],
  ["pve-volume-id", volumeId],
  ["pve-volume-id-or-absolute-path", (v) => (v.startsWith("/") ? undefined : volumeId(v))],
  [
    "pve-volume-id-or-qm-path",
    (v) => (v === "none" || v === "cdrom" || v.startsWith("/") ? undefined : volumeId(v)),
  ],
  ["pve-storage-server", unless((v) => isIp(v) || isDnsName(v), invalid("server name or IP address"))],
  ["pve-storage-path", unless((v) => /^\/[^;()]+/.test(v), invalid("absolute path"))],
  ["pve-storage-path-in-property-string", unless((v) => /^\/[^;()]+/.test(v), invalid("absolute path"))],
  ["pve-storage-portal-dns", unless(isHostAndPort, invalid("portal address"))],
  ["pve-storage-zfs-blocksize", unless((v) => /^\d+[kKMG]?$/.test(v), invalid("block size"))],
  ["pve-dir-override", unless(isDirOverride, (v) => `invalid override '${v}'\n`)],
  ["pve-cpuset", unless(isCpuset, "unable to parse cpuset option\n")],
  ["pve-phys-bits", unless(isPhysBits, "value must be an integer between 8 and 64 or 'host'\n")],
  ["pve-hotplug-features", unless(isHotplug, "unable to parse hotplug option\n")],
  ["pve-qm-bootdev", unless(isBootDevice, (v) => `invalid boot device '${v}'\n`)],
  ["pve-calendar-event", calendarEvent],
  ["graphite-path", unless(isDnsName, invalid("graphite path"))],
  [
    "pve-lxc-mp-string",
    unless(
      (v) => !/\/\.\.?(?:\/|$)|^\.\.\//.test(v),
      (v) => `${v} contains illegal character sequences\n`,
    ),
  ],
  [
    "pve-lxc-dev-string",
    unless(
      (v) => /^\/dev\/(?!.*\/\.\.?(?:\/|$)).+$/.test(v),
      (v) => `invalid device path '${v}'\n`,
    ),
  ],
  [
    "lxc-ip-with-ll-iface",
    unless(
      (v) =>
        isIp(v) || (/^fe80:[^%]+%[a-z][a-z0-9_]{1,20}(?:[:.]\d+)?$/i.test(v) && isIp(v.replace(/%.*$/, ""))),
      invalid("IP address"),
    ),
  ],
  ["pem-certificate", unless(isPem, "unable to parse certificate\n")],
  ["pem-certificate-chain", unless(isPemChain, "unable to parse certificate chain\n")],
  ["pem-string", unless(isPem, "unable to parse PEM string\n")],
  ["pve-command-batch", commandBatch],
  ["pve-sdn-fabric-id", sdnId],
  ["pve-sdn-prefix-list-id", sdnId],
  ["pve-sdn-route-map-id", sdnId],
  ["pve-sdn-fabric-wireguard-interface", sdnId],
  [
    "pve-sdn-bgp-rt",
    unless(
      (v) => /^(?:\d{1,10}|[\d.]+):\d{1,10}$/.test(v),
      (v) => `invalid route target '${v}'\n`,
    ),
  ],
  [
    "pve-sdn-isis-net",
    unless(
      (v) => compilePattern("[a-fA-F0-9]{2}(\\.[a-fA-F0-9]{4}){3,9}\\.[a-fA-F0-9]{2}").test(v),
      (v) => `value does not look like a valid isis net: ${v}\n`,
    ),
  ],
  [
    "pve-sdn-subnet-id",
    unless(
      (v) => isCidr(v, 0) || /^[a-zA-Z0-9-]+-[0-9a-fA-F.:]+-\d{1,3}$/.test(v),
      (v) => `value does not look like a valid subnet: ${v}\n`,
    ),
  ],
  [
    "pve-storage-content",
    unless(
      (v) => CONTENT_TYPES.has(v),
      (v) => `invalid content type '${v}'\n`,
    ),
  ],
  ...firewallRules,
]);

/** Detail texts of the formats that gen/named-formats.json states as a pattern or an enumeration. */
export const formatTexts: Readonly<Record<string, (value: string) => string>> = {
  urlencoded: (v) => `invalid urlencoded string: ${v}\n`,
  "pve-configid": (v) => `invalid configuration ID '${v}'\n`,
  "pve-storage-id": (v) => `storage ID '${v}' contains illegal characters\n`,
  "pve-bridge-id": (v) => `invalid bridge ID '${v}'\n`,
  "pve-vmid": () => invalid("VM ID"),
  "pve-node": () => invalid("node name"),
  "mac-addr": () => invalid("unicast MAC address"),
  "mac-prefix": () => invalid("unicast MAC address prefix"),
  "pve-iface": (v) => `invalid network interface name '${v}'\n`,
  "pve-tag": () => "invalid characters in tag\n",
  "pve-task-status-type": (v) => `invalid status '${v}'\n`,
  "ldap-simple-attr": (v) => `value '${v}' does not look like a simple ldap attribute name\n`,
  "pve-realm": () => invalid("realm"),
  "pve-tokenid": (v) => `value '${v}' does not look like a valid token ID\n`,
  "pve-groupid": (v) => `group name '${v}' contains invalid characters\n`,
  "pve-roleid": (v) => `role name '${v}' contains invalid characters\n`,
  "pve-poolid": (v) => `pool name '${v}' contains invalid characters\n`,
  "pve-storage-vgname": (v) => `lvm name '${v}' contains illegal characters\n`,
  "pve-storage-options": (v) => `invalid options '${v}'\n`,
  "pve-qm-bootdisk": (v) => `invalid boot disk '${v}'\n`,
  "pve-replication-job-id": (v) => `invalid replication job id '${v}'\n`,
  "pve-ha-resource-id": () => invalid("ha resource id"),
  "pve-ha-resource-or-vm-id": () => invalid("ha resource id"),
  "pve-ha-node": () => invalid("ha node"),
  "pve-day-of-week": (v) => `invalid day '${v}'\n`,
  "pve-acme-domain": () => invalid("domain name"),
  "pve-acme-alias": () => invalid("alias name"),
};
