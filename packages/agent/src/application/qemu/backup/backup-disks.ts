// Which disks of a VM are saved, and the configuration that goes with them.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { backupVolumes } from "@gpve/domain/backup/backup-volumes.ts";
import { archivedMicrovm } from "@gpve/domain/backup/archived-microvm.ts";
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import { formatSize } from "@gpve/domain/schema/size.ts";
import type { ImageLayer } from "@gpve/domain/storage/block-node.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { listDisks } from "@gpve/domain/vm/config/drive.ts";
import { emptyVmConfig, type VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { writeVmConfig } from "@gpve/domain/vm/config/write-config.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";

export interface BackupDisksPorts {
  readonly storages: GuestStorages;
}

export interface BackupDisk {
  /** "scsi0" */
  readonly key: string;
  /** Its number in the archive. */
  readonly device: number;
  /** Its name in the archive. */
  readonly name: string;
  readonly storage: string;
  readonly volid: string;
  readonly node: ImageLayer["node"];
  readonly format: ImageLayer["format"];
  /** Images below it, as our records have them. */
  readonly backing?: readonly ImageLayer[];
  readonly size: number;
  /** A template's. */
  readonly isBase: boolean;
}

export async function backupDisks(
  host: BackupDisksPorts,
  config: VmConfig,
  log: (line: string) => void,
): Promise<BackupDisk[]> {
  const chosen: { key: string; file: string }[] = [];
  const sizes = new Map(listDisks(config.values).map(({ key, drive }) => [key, drive.size]));
  for (const { key, volume, included, reason } of backupVolumes(config.values)) {
    if (!included) {
      log(`INFO: exclude disk '${key}' '${volume}' (${reason})`);
      continue;
    }
    const bytes = sizes.get(key);
    log(`INFO: include disk '${key}' '${volume}'${bytes === undefined ? "" : ` ${formatSize(bytes)}`}`);
    chosen.push({ key, file: volume });
  }
  const disks: BackupDisk[] = [];
  // In the order of their names, as the lines of the archived configuration are.
  for (const { key, file } of chosen.toSorted((a, b) => (a.key < b.key ? -1 : 1)))
    disks.push(await diskOf(host, key, file, disks.length + 1));
  return disks;
}

async function diskOf(
  host: BackupDisksPorts,
  key: string,
  file: string,
  device: number,
): Promise<BackupDisk> {
  if (parseVolumeId(file) === undefined)
    throw new AppError("feature.unsupported", `disk '${key}' is no volume and cannot be backed up`, {
      pveStatus: 500,
    });
  const { plugin, volname, storage } = volumeOf(host, file);
  await plugin.activate();
  const { size } = await plugin.info(volname).catch((cause: unknown) => {
    throw new AppError("object.not_found", `no such volume '${file}': ${messageOf(cause)}`, {
      cause,
      pveStatus: 500,
    });
  });
  const { node, format, backing = [] } = await plugin.attach(volname);
  // QEMU does not know a TPM's state by itself: it is read beside the drives.
  const name = key === "tpmstate0" ? "drive-tpmstate0-backup" : `drive-${key}`;
  const { isBase } = plugin.parse(volname);
  return { key, device, name, storage, volid: file, node, format, backing, size, isBase };
}

/** The configuration as it is, without snapshots and pending changes, and which device of the archive is which disk. */
export function archivedConfig(
  config: VmConfig,
  disks: readonly BackupDisk[],
  log: (line: string) => void,
  microvm?: Microvm,
): string {
  const kept: Record<string, string> = {};
  for (const [key, value] of Object.entries(config.values)) {
    if (/^unused\d+$/.test(key)) log(`INFO: skip unused drive '${value}' (not included into backup)`);
    else if (key !== "lock" && key !== "parent") kept[key] = value;
  }
  if (Object.keys(config.special).length > 0)
    log("INFO: special config section found (not included into backup)");
  if (Object.keys(config.snapshots).length > 0) log("INFO: snapshots found (not included into backup)");
  if (Object.keys(config.pending).length > 0)
    log("INFO: pending configuration changes found (not included into backup)");
  const map = disks.map(
    ({ key, name, storage, format }) => `#qmdump#map:${key}:${name}:${storage}:${format}:\n`,
  );
  return writeVmConfig({ ...emptyVmConfig, values: kept }) + map.join("") + archivedMicrovm(microvm);
}
