// Block nodes of a drive, from the top: throttle filter `drive-<key>`, format node, protocol node. Start and hotplug
// both take them from here.
import { refused } from "../../../request/failures.ts";
import type { Drive, DriveThrottle } from "../../config/property-types.ts";
import { isCdrom } from "../../config/drive.ts";
import type { CommandInput, ProtocolNode, ResolvedVolume } from "../command-input.ts";
import { type JsonObject, type JsonValue } from "../text/option-text.ts";

/** What block nodes depend on besides the drive. */
export interface BlockContext {
  readonly sha256Hex: (text: string) => string;
  readonly volumes: CommandInput["volumes"];
  readonly ioUring: boolean;
  readonly discardNoUnref: boolean;
  /** PVE lets QEMU refuse what `isOdd`. */
  readonly cachesOdd?: boolean;
  /** PVE lets QEMU follow what an image's header names. */
  readonly namesBacking?: boolean;
  /** PVE opens files for writing for as long as QEMU runs. */
  readonly letsGo?: boolean;
}

export interface BlockOptions {
  readonly readOnly?: boolean;
  /** Cut the node to this many bytes; raw images only. */
  readonly bytes?: number;
  readonly cache?: NonNullable<Drive["cache"]>;
  /** Another name of the node on top. */
  readonly top?: string;
}

export interface DriveNodes {
  /** Arguments of `blockdev-add`, or the value of `-blockdev`. */
  readonly blockdev: JsonObject;
  /** Arguments of `object-add`; needed before the node. */
  readonly throttleGroup: JsonObject;
  readonly volume: ResolvedVolume;
}

export function driveNodes(
  context: BlockContext,
  key: string,
  given: Drive,
  options: BlockOptions = {},
): DriveNodes {
  const drive = options.cache === undefined ? given : { ...given, cache: given.cache ?? options.cache };
  const volume = findVolume(context, key, drive);
  const { top = topNodeName(key) } = options;
  const shared = commonOptions(drive, options);
  const image =
    drive.snapshot === true
      ? throwaway(context, key, drive, volume, options)
      : imageTree(context, key, drive, volume, options);
  const blockdev = isPassedThrough(drive, volume)
    ? { ...image, "node-name": top }
    : {
        driver: "throttle",
        "node-name": top,
        "throttle-group": throttleGroupId(key),
        file: image,
        ...shared,
      };
  return { blockdev, throttleGroup: throttleGroup(key, drive), volume };
}

/** The volume with all that is below it. */
function imageTree(
  context: BlockContext,
  key: string,
  drive: Drive,
  volume: ResolvedVolume,
  options: BlockOptions,
): JsonObject {
  // Snapshots below are opened as the drive says; only the image itself is kept from being written.
  const below = commonOptions(drive, {});
  return {
    ...imageNodes(context, key, drive, volume, volume.node, commonOptions(drive, options)),
    ...(context.namesBacking === true ? namedBacking(volume) : {}),
    ...backing(volume, (node, snapshot) => imageNodes(context, key, drive, volume, node, below, snapshot)),
    ...(options.bytes !== undefined && volume.format === "raw" ? { size: options.bytes } : {}),
  };
}

/** The volume is only read; what the guest writes goes to an overlay that nobody keeps. */
function throwaway(
  context: BlockContext,
  key: string,
  drive: Drive,
  volume: ResolvedVolume,
  options: BlockOptions,
): JsonObject {
  const { overlay } = volume;
  if (overlay === undefined) throw refused("'snapshot' option is not yet supported for '-blockdev'");
  const shared = commonOptions(drive, options);
  // Nothing of it has to outlive a crash of the host.
  const cache = { direct: false, "no-flush": true };
  const name = (prefix: "o" | "t") => nodeName(prefix, key, drive.file, context.sha256Hex);
  return {
    driver: "qcow2",
    "node-name": name("o"),
    file: { ...overlay, cache, "node-name": name("t"), ...shared },
    cache,
    ...shared,
    backing: imageTree(context, key, drive, volume, { ...options, readOnly: true }),
  };
}

/** A throttle filter cannot pass SCSI commands through to a device: its limits are not kept. */
export function isPassedThrough(drive: Drive, volume: ResolvedVolume): boolean {
  return drive.scsiblock === true || volume.scsi === "tape";
}

/** Of a drive as it is started or plugged; a copy that took its place has a name of its own. */
export function topNodeName(key: string): string {
  return `drive-${key}`;
}

/** On top of a copy that takes the place of a drive. */
export function copyTopName(key: string, file: string, sha256Hex: (text: string) => string): string {
  return `${topNodeName(key)}-${sha256Hex(file).slice(0, 12)}`;
}

/** Whether a node of this name is the top of a drive, whichever volume it is on. */
export function isTopNodeOf(key: string, name: string): boolean {
  const top = topNodeName(key);
  return name === top || (name.startsWith(`${top}-`) && /^[\da-f]{12}$/.test(name.slice(top.length + 1)));
}

export function throttleGroupId(key: string): string {
  return `throttle-drive-${key}`;
}

/** `f` for the format layer, `e` for the protocol layer; the hash keeps names short and stable. */
export function nodeName(
  prefix: "f" | "e" | "a" | "z" | "o" | "t",
  key: string,
  file: string,
  sha256Hex: (text: string) => string,
  snapshot?: string,
): string {
  const snap = snapshot === undefined ? "" : `snap=${snapshot},`;
  return `${prefix}${sha256Hex(`drive=${key},${snap}volid=${file}`).slice(0, 30)}`;
}

/** The throttle group of a drive; also the value to set when limits change while it runs. */
export function throttleGroup(key: string, drive: DriveThrottle): JsonObject {
  return { id: throttleGroupId(key), limits: throttleLimits(drive), "qom-type": "throttle-group" };
}

const MIB = 1024 * 1024;

export function throttleLimits(drive: DriveThrottle): Readonly<Record<string, number>> {
  const limits: Record<string, number> = {};
  const values = drive as Readonly<Record<string, number | undefined>>;
  for (const [suffix, name] of [
    ["", "total"],
    ["_rd", "read"],
    ["_wr", "write"],
  ] as const) {
    const set = (limit: string, value: number | undefined, unit = 1) => {
      if (value !== undefined && value !== 0) limits[limit] = Math.trunc(value * unit);
    };
    set(`bps-${name}`, values[`mbps${suffix}`], MIB);
    set(`bps-${name}-max`, values[`mbps${suffix}_max`], MIB);
    set(`bps-${name}-max-length`, values[`bps${suffix}_max_length`]);
    set(`iops-${name}`, values[`iops${suffix}`]);
    set(`iops-${name}-max`, values[`iops${suffix}_max`]);
    set(`iops-${name}-max-length`, values[`iops${suffix}_max_length`]);
  }
  return limits;
}

/** Finds the volume and refuses what its storage is not for. */
export function findVolume(
  { volumes }: Pick<BlockContext, "volumes">,
  key: string,
  drive: Drive,
): ResolvedVolume {
  const volume = volumes(drive.file, { key, drive });
  if (volume.contentType === "iso" && drive.media === undefined)
    throw refused(`${key}: explicit media parameter is required for iso images`);
  const { storage } = volume;
  // What no storage looks after is what the drive says it is; QEMU must never guess.
  if (storage === undefined) return { ...volume, format: drive.format ?? volume.format };
  if (volume.contentType !== "other" && !storage.content.includes(volume.contentType))
    throw refused(`storage '${storage.id}' does not support content-type '${volume.contentType}'`);
  if (drive.format !== undefined && drive.format !== volume.format) {
    throw refused(
      `drive '${key}' - volume '${drive.file}' - 'format=${drive.format}' option different from storage format '${volume.format}'`,
    );
  }
  return volume;
}

export function usesDirectCache(drive: Drive, volume: ResolvedVolume | undefined): boolean {
  if (drive.cache !== undefined) return drive.cache === "none" || drive.cache === "directsync";
  if (isCdrom(drive)) return false;
  // O_DIRECT on copy-on-write files of btrfs breaks their checksums.
  return !(volume?.storage?.type === "btrfs" && volume.storage.nocow !== true);
}

/** The largest alignment that O_DIRECT asks for anywhere. */
export const DIRECT_BYTES = 4096;

/**
 * Where a file begins with a hole QEMU cannot find out how its storage aligns O_DIRECT, and refuses to write to one
 * that does not end at the largest alignment there is.
 */
function isOdd({ cache, aio }: Drive, { format, unaligned }: ResolvedVolume): boolean {
  return format === "raw" && unaligned === true && cache === undefined && aio !== "native";
}

/** io_uring where nothing is known to hang with it. */
export function aioMode(
  drive: Drive,
  volume: ResolvedVolume | undefined,
  direct: boolean,
  ioUring: boolean,
): string {
  if (drive.aio !== undefined && (drive.aio !== "io_uring" || ioUring)) return drive.aio;
  const storage = volume?.storage;
  const hangs = storage?.type === "lvm" || storage?.type === "cifs" || (storage?.krbd === true && !direct);
  if (ioUring && !hangs) return "io_uring";
  return direct ? "native" : "threads";
}

export function detectZeroes(drive: Drive): "off" | "on" | "unmap" {
  if (drive.detect_zeroes === false) return "off";
  return drive.discard === "on" ? "unmap" : "on";
}

const AIO_DRIVERS = new Set(["file", "host_device", "host_cdrom"]);

function imageNodes(
  context: BlockContext,
  key: string,
  drive: Drive,
  volume: ResolvedVolume,
  node: ProtocolNode,
  shared: JsonObject,
  snapshot?: string,
): Record<string, JsonValue> {
  // Firmware rewrites its variables in tiny pieces: without a write cache on RBD that takes minutes.
  const cached =
    (node.driver === "rbd" && key === "efidisk0") || (context.cachesOdd === true && isOdd(drive, volume));
  const direct = !cached && usesDirectCache(drive, volume);
  const cache = { direct, "no-flush": drive.cache === "unsafe" };
  const name = (prefix: "e" | "f") => nodeName(prefix, key, drive.file, context.sha256Hex, snapshot);
  const file: Record<string, JsonValue> = { ...node, cache, "node-name": name("e"), ...shared };
  if (AIO_DRIVERS.has(node.driver)) file["aio"] = aioMode(drive, volume, direct, context.ioUring);
  // Open for writing only while something writes: not where the guest is still to come, nor where it has gone.
  if (context.letsGo === true && node.driver === "file" && shared["read-only"] === false)
    file["auto-read-only"] = true;
  const chained = volume.storage?.snapshotAsVolumeChain === true && volume.format === "qcow2";
  return {
    driver: volume.format,
    "node-name": name("f"),
    file,
    cache,
    ...shared,
    ...(chained && context.discardNoUnref ? { "discard-no-unref": true } : {}),
  };
}

function backing(
  volume: ResolvedVolume,
  layer: (node: ProtocolNode, snapshot: string) => JsonObject,
): { readonly backing?: JsonObject } {
  let below: JsonObject | undefined;
  for (const { snapshot, node } of volume.chain?.toReversed() ?? []) {
    below = below === undefined ? layer(node, snapshot) : { ...layer(node, snapshot), backing: below };
  }
  return below === undefined ? {} : { backing: below };
}

/** Formats whose headers can name an image below. */
const BUILDS_ON_OTHERS = new Set(["qcow2", "vmdk"]);

/** A guest could have written another name into its header. */
function namedBacking({ format, backing: layers }: ResolvedVolume): { readonly backing?: JsonValue } {
  if (layers === undefined || !BUILDS_ON_OTHERS.has(format)) return {};
  let below: JsonValue = null;
  for (const layer of layers.toReversed()) {
    const image: JsonObject = { driver: layer.format, file: layer.node, "read-only": true };
    below = BUILDS_ON_OTHERS.has(layer.format) ? { ...image, backing: below } : image;
  }
  return { backing: below };
}

function commonOptions(drive: Drive, options: BlockOptions): Record<string, JsonValue> {
  const cdrom = isCdrom(drive);
  return {
    ...(cdrom
      ? {}
      : { discard: drive.discard === "on" ? "unmap" : "ignore", "detect-zeroes": detectZeroes(drive) }),
    "read-only": drive.ro === true || cdrom || options.readOnly === true,
  };
}
