// Who may use a backup that lies on a storage.
import { given } from "@gpve/contracts/given.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { requireVolumeAccess } from "@gpve/domain/storage/volume-access.ts";
import { volumeOf, type GuestStorages } from "../guest-storages.ts";

/** Who manages the storage still sees no guest's configuration without the guest's leave. */
export function requireArchivedConfig(
  host: { readonly storages: GuestStorages },
  volid: string,
  ctx: RequestContext,
): void {
  const owner = requireBackup(host, volid, ctx);
  if (owner !== undefined) ctx.access.require(`/vms/${owner}`, ["VM.Backup"]);
}

/** Throws when the volume is no backup, or one that the actor may not use. Returns whose it is. */
export function requireBackup(
  host: { readonly storages: GuestStorages },
  volid: string,
  ctx: RequestContext,
  forVmid?: number,
): number | undefined {
  const { plugin, volname, storage } = volumeOf(host, volid);
  const { type, vmid } = plugin.parse(volname);
  requireVolumeAccess(
    ctx.access,
    { storage, volid, type, ...given({ vmid }) },
    { as: "backup", ...given({ forVmid }) },
  );
  return vmid;
}
