// /nodes/{node}/storage/{storage}/file-restore: looking into backups of VMs.
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { parseBackupName } from "@gpve/domain/storage/backup-name.ts";
import { badStorageParameter } from "@gpve/domain/storage/failures.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import {
  downloadBackupFile,
  listBackupFiles,
  type Archive,
  type BackupFilesDeps,
} from "../../../application/file-restore/backup-files.ts";
import { requireBackup } from "../../../application/guest/backup/require-backup.ts";
import { volumeOf } from "../../../application/guest/guest-storages.ts";
import type { VzdumpRequestPorts } from "../../../application/guest/backup/vzdump-request.ts";

export function createFileRestoreHandlers(
  deps: BackupFilesDeps & { readonly host: VzdumpRequestPorts },
): PveHandlers {
  return {
    "GET /nodes/{node}/storage/{storage}/file-restore/list": async ({ storage, volume, filepath }, ctx) => {
      const archive = await archiveOf(deps.host, storage, volume, ctx);
      const rows = await listBackupFiles(deps, archive, pathOf(filepath));
      return rows.map(({ path, ...row }) => ({
        filepath: Buffer.from(`/${path.join("/")}`).toString("base64"),
        ...row,
      }));
    },

    "GET /nodes/{node}/storage/{storage}/file-restore/download": async (
      { storage, volume, filepath, tar },
      ctx,
    ) => {
      const archive = await archiveOf(deps.host, storage, volume, ctx);
      const { fileName, body } = await downloadBackupFile(deps, archive, pathOf(filepath), tar ?? false);
      return new PveReply({
        download: { contentType: "application/octet-stream", fileName, body },
      });
    },
  };
}

async function archiveOf(
  host: VzdumpRequestPorts,
  storage: string,
  volume: string,
  ctx: RequestContext,
): Promise<Archive> {
  const parsed = parseVolumeId(volume);
  if (parsed !== undefined && parsed.storage !== storage)
    throw badStorageParameter("volume", `storage ID mismatch (${parsed.storage} != ${storage}).`);
  // The archive's name alone will do.
  const volname = volume.startsWith("backup/") ? volume : `backup/${volume}`;
  const volid = parsed === undefined ? `${storage}:${volname}` : volume;
  requireBackup(host, volid, ctx);
  const { plugin, volname: found } = volumeOf(host, volid);
  await plugin.activate();
  const { name } = plugin.parse(found);
  const container = parseBackupName(name)?.container;
  if (container !== "vma" && container !== "gpvi")
    throw badStorageParameter("volume", "only backups of VMs can be looked into");
  await plugin.info(found);
  return { plugin, name };
}

/** "/" as it is, everything else in base64. */
function pathOf(filepath: string): string[] {
  const text = filepath === "/" ? "/" : Buffer.from(filepath, "base64").toString("utf8");
  const parts = text.split("/").filter((part) => part !== "");
  if (parts.some((part) => part === "." || part === ".." || part.includes("\0")))
    throw badStorageParameter("filepath", "invalid path");
  return parts;
}
