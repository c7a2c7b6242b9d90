// Whether the caller may use what the drives of a request name: storages, volumes, files of the host, sources of
// imports. PVE asks this before it forks, beside the privilege that each key needs.
import { AppError } from "@gpve/contracts/errors.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import { requireVolumeAccess } from "@gpve/domain/storage/volume-access.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isCdrom, isCloudinitVolume, parseDrive } from "@gpve/domain/vm/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/keys.ts";
import { newDiskStorage } from "../../application/vm/new-disks.ts";
import { volumeOf, type VmHost } from "../../application/vm/vm-host.ts";

/** Throws as PVE does for the first drive that the caller may not have. */
export function checkDriveAccess(
  host: VmHost,
  vmid: number,
  set: Readonly<Record<string, string>>,
  ctx: RequestContext,
): void {
  for (const [key, text] of Object.entries(set)) {
    if (!isDriveKey(key)) continue;
    const drive = parseDrive(key, text);
    if (drive === undefined) throw badParameter(key, "unable to parse drive options");
    const { file, "import-from": source } = drive;
    if (file !== "none" && file !== "cdrom" && !isCloudinitVolume(file)) {
      const storage = isCdrom(drive) ? undefined : newDiskStorage(file);
      if (storage !== undefined) ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
      else if (!["images", "iso", undefined].includes(useVolume(host, vmid, file, ctx)))
        throw badParameter(key, "content type needs to be 'images' or 'iso'");
    }
    if (source !== undefined) checkSource(host, vmid, key, source, ctx);
  }
}

function checkSource(host: VmHost, vmid: number, key: string, source: string, ctx: RequestContext): void {
  const named = parseVolumeId(source) === undefined ? undefined : volumeOf(host, source);
  const name = named?.plugin.parse(named.volname);
  if (name !== undefined && name.type !== "images" && name.type !== "import")
    throw badParameter(key, `${source} has wrong type '${name.type}' - needs to be 'images' or 'import'`);
  // The disk of another VM may be in use: its guest is asked, not its storage.
  const owner = name !== undefined && "vmid" in name ? name.vmid : undefined;
  if (owner !== undefined) ctx.access.require(`/vms/${owner}`, ["VM.Clone"]);
  else useVolume(host, vmid, source, ctx);
}

/** The type of the volume; undefined for a file of the host, which is root's alone. */
function useVolume(host: VmHost, vmid: number, file: string, ctx: RequestContext): string | undefined {
  if (parseVolumeId(file) === undefined) {
    if (ctx.actor !== undefined && isRoot(ctx.actor)) return undefined;
    throw new AppError("access.denied", "Only root can pass arbitrary filesystem paths.", { pveStatus: 500 });
  }
  const { plugin, storage, volname } = volumeOf(host, file);
  const name = plugin.parse(volname);
  const owner = "vmid" in name && name.vmid !== undefined ? { vmid: name.vmid } : {};
  requireVolumeAccess(ctx.access, { storage, volid: file, type: name.type, ...owner }, { forVmid: vmid });
  return name.type;
}

function badParameter(key: string, message: string): AppError {
  return new AppError("request.invalid", "Parameter verification failed.", { errors: { [key]: message } });
}
