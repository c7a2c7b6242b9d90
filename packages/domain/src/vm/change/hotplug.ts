// What can change while the guest runs, as data. A key is changed at once, through a hotplug feature the VM allows,
// or waits in [PENDING] for the next start.
import { isDriveKey, keyKind } from "../config/keys.ts";
import type { Drive, NetDevice } from "../config/property-types.ts";
import type { HotplugFeature } from "../config/vm-properties.ts";

export type HotplugClass = "immediate" | "pending" | { readonly feature: HotplugFeature };

const IMMEDIATE = [
  "cicustom",
  "cipassword",
  "citype",
  "ciupgrade",
  "ciuser",
  "cpulimit",
  "cpuunits",
  "description",
  "hookscript",
  "ipconfig",
  "lock",
  "migrate_downtime",
  "migrate_speed",
  "name",
  "nameserver",
  "onboot",
  "protection",
  "searchdomain",
  "shares",
  "sshkeys",
  "startup",
  "tags",
  "unused",
  "vmstatestorage",
] as const;

const BY_FEATURE: Readonly<Record<string, HotplugFeature>> = {
  memory: "memory",
  net: "network",
  scsi: "disk",
  usb: "usb",
  vcpus: "cpu",
  virtio: "disk",
};

const classes: ReadonlyMap<string, HotplugClass> = new Map<string, HotplugClass>([
  ...IMMEDIATE.map((kind): [string, HotplugClass] => [kind, "immediate"]),
  ...Object.entries(BY_FEATURE).map(([kind, feature]): [string, HotplugClass] => [kind, { feature }]),
]);

/**
 * The class of a key. For drives it is that of plugging one in or out: `driveChange` says when an option or a CD
 * medium changes live, which needs no feature.
 */
export function hotplugClass(key: string): HotplugClass {
  return classes.get(keyKind(key)) ?? "pending";
}

/** `plug` in or out, change `live`, exchange the `media` of a CD drive, nothing to do (`none`), or wait. */
export type DriveChange = "plug" | "unplug" | "replug" | "media" | "live" | "none" | "pending";

/** Options the running device cannot take over. */
const FIXED_DRIVE_OPTIONS = [
  "aio",
  "cache",
  "discard",
  "detect_zeroes",
  "iothread",
  "product",
  "queues",
  "ro",
  "ssd",
  "vendor",
  "wwn",
  "serial",
  "model",
  "scsiblock",
] as const satisfies readonly (keyof Drive)[];

/** Buses whose disks can be plugged while the guest runs; of the others only the CD medium can change. */
export function isPluggableBus(key: string): boolean {
  return /^(?:scsi|virtio)\d+$/.test(key);
}

/** How the change of a drive reaches the running guest. */
export function driveChange(key: string, before: Drive | undefined, after: Drive | undefined): DriveChange {
  if (!isDriveKey(key)) return "pending";
  if (before === undefined || after === undefined) {
    if (before === undefined && after === undefined) return "none";
    if (!isPluggableBus(key)) return "pending";
    return before === undefined ? "plug" : "unplug";
  }
  const wasCd = before.media === "cdrom";
  if (wasCd !== (after.media === "cdrom")) return "pending";
  if (wasCd) return before.file === after.file ? "none" : "media";
  if (!isPluggableBus(key) && before.file !== after.file) return "pending";
  if (before.file !== after.file) return "replug";
  if (FIXED_DRIVE_OPTIONS.some((option) => before[option] !== after[option])) return "pending";
  return sameRecord(before, after) ? "none" : "live";
}

const REPLUG_NET_OPTIONS = [
  "model",
  "macaddr",
  "queues",
  "mtu",
] as const satisfies readonly (keyof NetDevice)[];

export type NetChange = "plug" | "unplug" | "replug" | "live" | "none";

/** Bridge, VLAN, firewall, rate and link state change live; the device itself is plugged anew. */
export function netChange(before: NetDevice | undefined, after: NetDevice | undefined): NetChange {
  if (before === undefined || after === undefined) {
    if (before === undefined && after === undefined) return "none";
    return before === undefined ? "plug" : "unplug";
  }
  if (REPLUG_NET_OPTIONS.some((option) => before[option] !== after[option])) return "replug";
  return sameRecord(before, after) ? "none" : "live";
}

function sameRecord(before: object, after: object): boolean {
  const left = Object.entries(before);
  const right = new Map<string, unknown>(Object.entries(after));
  return left.length === right.size && left.every(([key, value]) => right.get(key) === value);
}
