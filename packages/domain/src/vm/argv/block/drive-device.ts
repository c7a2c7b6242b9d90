// The device a guest sees for a drive, and the controller it hangs on.
import type { Drive } from "../../config/property-types.ts";
import { isCdrom, isCloudinitVolume } from "../../config/drive.ts";
import type { ResolvedVolume } from "../command-input.ts";
import { device, type DeviceOptions, type OptionValue } from "../text/option-text.ts";
import { addressProperties, type PciAddress } from "../device/pci-address.ts";

/** What the device depends on besides the drive. */
export interface DriveDeviceContext {
  readonly scsihw: string | undefined;
  readonly q35: boolean;
  readonly template: boolean;
  readonly blockdev: boolean;
  /** Before 4.1 iSCSI disks were passed through as they are. */
  readonly iscsiGeneric: boolean;
  readonly place: (id: string) => PciAddress | undefined;
  readonly bootIndex?: number;
}

export interface ScsiController {
  readonly id: string;
  /** Number of the drive on it. */
  readonly unit: number;
}

const SATA_DISKS = 6;
const IDE_DISKS = 2;
const SCSI_BUS_DEVICES = 7;
const SCSI_LUNS = 256;

export function splitDriveKey(key: string): { readonly bus: string; readonly index: number } {
  const match = /^(.*?)(\d+)$/.exec(key);
  return { bus: match?.[1] ?? key, index: Number(match?.[2] ?? 0) };
}

/** One controller per disk for virtio-scsi-single, else as many as the controller has targets. */
export function scsiController(scsihw: string | undefined, index: number): ScsiController {
  if (scsihw === "virtio-scsi-single") return { id: `virtioscsi${index}`, unit: 0 };
  const most = scsihw === undefined || scsihw.startsWith("lsi") ? SCSI_BUS_DEVICES : SCSI_LUNS;
  return { id: `scsihw${Math.floor(index / most)}`, unit: index % most };
}

export function scsiControllerDevice(
  scsihw: string | undefined,
  id: string,
  drive: Drive,
  address: PciAddress | undefined,
): DeviceOptions {
  const single = scsihw === "virtio-scsi-single";
  const hardware = scsihw ?? "lsi";
  return device(
    single ? "virtio-scsi-pci" : hardware,
    ["id", id],
    ...addressProperties(address),
    ["iothread", single && drive.iothread === true ? `iothread-${id}` : undefined],
    ["num_queues", single ? drive.queues : undefined],
  );
}

/** The iothread object of a drive, or undefined. */
export function iothreadId(scsihw: string | undefined, key: string, drive: Drive): string | undefined {
  if (drive.iothread !== true) return undefined;
  const { bus, index } = splitDriveKey(key);
  if (bus === "virtio") return `iothread-${key}`;
  if (bus === "scsi" && scsihw === "virtio-scsi-single") return `iothread-virtioscsi${index}`;
  return undefined;
}

export function driveDevice(
  context: DriveDeviceContext,
  key: string,
  drive: Drive,
  volume: ResolvedVolume | undefined,
): DeviceOptions {
  const { bus, index } = splitDriveKey(key);
  // With -blockdev an empty drive has no node at all.
  const node = context.blockdev && drive.file === "none" ? undefined : `drive-${key}`;
  const make =
    bus === "virtio" ? virtioDevice : bus === "scsi" ? scsiDevice : bus === "sata" ? sataDevice : ideDevice;
  const { driver, properties, writeCache } = make({ context, key, index, drive, volume, node });
  const tail: (readonly [string, OptionValue | undefined])[] = [
    ["bootindex", context.bootIndex],
    ["serial", drive.serial === undefined ? undefined : unescapeUri(drive.serial)],
  ];
  if (context.blockdev) {
    const off = drive.cache === "writethrough" || drive.cache === "directsync";
    tail.push(
      ["write-cache", writeCache && !isCdrom(drive) ? (off ? "off" : "on") : undefined],
      ["rerror", drive.rerror],
      ["werror", drive.werror],
    );
  }
  return device(driver, ...properties, ...tail);
}

interface DevicePart {
  readonly driver: string;
  readonly properties: readonly (readonly [string, OptionValue | undefined])[];
  readonly writeCache: boolean;
}

interface DriveParts {
  readonly context: DriveDeviceContext;
  readonly key: string;
  readonly index: number;
  readonly drive: Drive;
  readonly volume: ResolvedVolume | undefined;
  readonly node: string | undefined;
}

function virtioDevice({ context, key, drive, node }: DriveParts): DevicePart {
  return {
    driver: "virtio-blk-pci",
    writeCache: true,
    properties: [
      ["drive", node],
      ["id", key],
      ...addressProperties(context.place(key)),
      ["iothread", drive.iothread === true ? `iothread-${key}` : undefined],
    ],
  };
}

function scsiDevice({ context, key, index, drive, volume, node }: DriveParts): DevicePart {
  const { scsihw } = context;
  const { id, unit } = scsiController(scsihw, index);
  const kind = context.iscsiGeneric && volume?.node.driver === "iscsi" ? "generic" : scsiKind(drive, volume);
  const byTarget = scsihw === undefined || scsihw.startsWith("lsi") || scsihw === "pvscsi";
  const image = kind === "hd" || kind === "cd";
  return {
    driver: `scsi-${kind}`,
    writeCache: image,
    properties: [
      ["bus", `${id}.0`],
      ...(byTarget
        ? ([["scsi-id", unit]] as const)
        : ([
            ["channel", 0],
            ["scsi-id", 0],
            ["lun", index],
          ] as const)),
      ["drive", node],
      ["id", key],
      // -drive made this id out of the drive's; guests name disks by it.
      ["device_id", context.blockdev && image ? `drive-${key}` : undefined],
      ["rotation_rate", drive.ssd === true && (kind === "hd" || kind === "block") ? 1 : undefined],
      ["wwn", drive.wwn],
      ["vendor", image ? drive.vendor : undefined],
      ["product", image ? drive.product : undefined],
    ],
  };
}

function scsiKind(drive: Drive, volume: ResolvedVolume | undefined): "cd" | "hd" | "block" | "generic" {
  if (isCdrom(drive) || isCloudinitVolume(drive.file)) return "cd";
  if (volume?.scsi === "tape") return "generic";
  return volume?.scsi === "disk" && drive.scsiblock === true ? "block" : "hd";
}

function ideDevice(parts: DriveParts): DevicePart {
  const { context, index } = parts;
  let bus = Math.floor(index / IDE_DISKS);
  let unit = index % IDE_DISKS;
  if (context.q35) {
    // q35 has one unit per bus: odd drives move to the buses above.
    bus += 2 * unit;
    unit = 0;
  }
  return ataDevice(parts, [
    ["bus", `ide.${bus}`],
    ["unit", unit],
  ]);
}

function sataDevice(parts: DriveParts): DevicePart {
  return ataDevice(parts, [
    ["bus", `ahci${Math.floor(parts.index / SATA_DISKS)}.${parts.index % SATA_DISKS}`],
  ]);
}

function ataDevice(
  { context, key, drive, node }: DriveParts,
  place: readonly (readonly [string, OptionValue])[],
): DevicePart {
  // A template's disks are read-only, which only a CD drive can be here.
  const kind = isCdrom(drive) || context.template ? "cd" : "hd";
  const disk = kind === "hd";
  return {
    driver: `ide-${kind}`,
    writeCache: true,
    properties: [
      ...place,
      ["drive", node],
      ["id", key],
      ["model", disk && drive.model !== undefined ? unescapeUri(drive.model) : undefined],
      ["rotation_rate", disk && drive.ssd === true ? 1 : undefined],
      ["wwn", drive.wwn],
    ],
  };
}

function unescapeUri(text: string): string {
  return text.replaceAll(/%([0-9a-fA-F]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}
