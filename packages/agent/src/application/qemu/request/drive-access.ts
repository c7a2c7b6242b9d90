// Whether the caller may use what the drives of a request name: storages, volumes, files of the host, sources of
// imports. PVE asks this before it forks, beside the privilege that each key needs.
import { parameterError } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import type { VolumeType } from "@gpve/domain/storage/content.ts";
import { requireVolumeAccess } from "@gpve/domain/storage/volume-access.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isCdrom, isCloudinitVolume, parseDrive } from "@gpve/domain/vm/config/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import type { Drive } from "@gpve/domain/vm/config/property-types.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { isNewDisk, newDiskStorage } from "../config/new-disks.ts";
import { requireSnippet } from "../../guest/snippet-volume.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";

export interface DriveAccessPorts {
  readonly storages: GuestStorages;
}

/** Throws as PVE does for the first drive that makes no sense, whoever asks for it. */
export function checkDriveParameters(host: DriveAccessPorts, set: Readonly<Record<string, string>>): void {
  for (const key of Object.keys(set).toSorted()) {
    if (!isDriveKey(key)) continue;
    const drive = parseDrive(key, set[key] ?? "");
    if (drive === undefined) throw parameterError({ [key]: "unable to parse drive options" });
    if (drive["import-from"] !== undefined) checkImport(key, drive);
    const volume = parseVolumeId(drive.file);
    if (volume === undefined || isNewDisk(key, set[key] ?? "")) continue;
    const { type } = host.storages.plugin(volume.storage).parse(volume.volname);
    if (type === "iso" && drive.media !== "cdrom")
      throw parameterError({ [key]: "explicit 'media=cdrom' is required for iso images" });
  }
}

function checkImport(key: string, drive: Drive): void {
  if (!/^(?:[^/:\s]+:)?0+(?:\.0+)?$/.test(drive.file))
    throw parameterError({
      [key]: "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>",
    });
  const needed =
    key === "efidisk0" ? ["efitype", "pre-enrolled-keys"] : key === "tpmstate0" ? ["version"] : [];
  for (const name of needed)
    if (drive[name as keyof Drive] === undefined)
      throw parameterError({ [key]: `need to specify '${name}' when using 'import-from'` });
}

/** Throws as PVE does for the first drive that the caller may not have. */
export function checkDriveAccess(
  host: DriveAccessPorts,
  vmid: number,
  set: Readonly<Record<string, string>>,
  ctx: RequestContext,
): void {
  for (const [key, text] of Object.entries(set)) {
    if (!isDriveKey(key)) continue;
    const drive = parseDrive(key, text);
    if (drive === undefined) throw parameterError({ [key]: "unable to parse drive options" });
    const { file, "import-from": source } = drive;
    if (file !== "none" && file !== "cdrom" && !isCloudinitVolume(file)) {
      const storage = isCdrom(drive) ? undefined : newDiskStorage(file);
      if (storage !== undefined) ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
      else if (!["images", "iso", undefined].includes(useVolume(host, vmid, file, ctx)))
        throw parameterError({ [key]: "content type needs to be 'images' or 'iso'" });
    }
    if (source !== undefined) checkSource(host, vmid, key, source, ctx);
  }
  checkOtherVolumes(host, vmid, set, ctx);
}

/** Volumes that are named by no drive: unused ones, RAM that is saved, snippets. */
function checkOtherVolumes(
  host: DriveAccessPorts,
  vmid: number,
  set: Readonly<Record<string, string>>,
  ctx: RequestContext,
): void {
  for (const [key, volid] of Object.entries(set)) {
    if (!/^unused\d+$/.test(key)) continue;
    if (parseVolumeId(volid) === undefined) throw parameterError({ [key]: `not a valid volid: ${volid}` });
    useVolume(host, vmid, volid, ctx, "images");
  }
  const { vmstatestorage, cicustom } = set;
  if (vmstatestorage !== undefined)
    ctx.access.require(`/storage/${vmstatestorage}`, ["Datastore.AllocateSpace"]);
  if (cicustom === undefined || cicustom === "") return;
  const files = readVmProperty("cicustom", cicustom, "cicustom");
  // PVE asks for no right on the storage: the key's own privilege is all that it needs.
  for (const volid of Object.values(files)) requireSnippet(host, volid);
}

function checkSource(
  host: DriveAccessPorts,
  vmid: number,
  key: string,
  source: string,
  ctx: RequestContext,
): void {
  const named = parseVolumeId(source) === undefined ? undefined : volumeOf(host, source);
  const name = named?.plugin.parse(named.volname);
  if (name !== undefined && name.type !== "images" && name.type !== "import")
    throw parameterError({
      [key]: `${source} has wrong type '${name.type}' - needs to be 'images' or 'import'`,
    });
  // The disk of another VM may be in use: its guest is asked, not its storage.
  const owner = name !== undefined && "vmid" in name ? name.vmid : undefined;
  if (owner !== undefined) ctx.access.require(`/vms/${owner}`, ["VM.Clone"]);
  else useVolume(host, vmid, source, ctx);
}

/** The type of the volume; undefined for a file of the host, which is root's alone. */
function useVolume(
  host: DriveAccessPorts,
  vmid: number,
  file: string,
  ctx: RequestContext,
  as?: VolumeType,
): string | undefined {
  if (parseVolumeId(file) === undefined) {
    if (ctx.actor !== undefined && isRoot(ctx.actor)) return undefined;
    throw new AppError("access.denied", "Only root can pass arbitrary filesystem paths.", { pveStatus: 500 });
  }
  const { plugin, storage, volname } = volumeOf(host, file);
  const name = plugin.parse(volname);
  const owner = "vmid" in name && name.vmid !== undefined ? { vmid: name.vmid } : {};
  requireVolumeAccess(
    ctx.access,
    { storage, volid: file, type: name.type, ...owner },
    { forVmid: vmid, ...given({ as }) },
  );
  return name.type;
}
