// vzdump: one VM into one archive.
import { AppError } from "@gpve/contracts/errors.ts";
import { backupBaseName, logNameOf, NOTES_SUFFIX } from "@gpve/domain/storage/backup-name.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { listDisks } from "@gpve/domain/vm/drive.ts";
import type { VmConfig } from "@gpve/domain/vm/vm-config.ts";
import { emptyVmConfig } from "@gpve/domain/vm/vm-config.ts";
import { writeVmConfig } from "@gpve/domain/vm/write-config.ts";
import { runningVm, volumeOf, type VmHost } from "../vm/vm-host.ts";
import { copyDisk } from "./copy-disk.ts";
import { beginFleece } from "./fleece.ts";
import {
  SUFFIX,
  type ArchiveWriter,
  type BackupTools,
  type Compression,
  type DiskAccess,
} from "@gpve/domain/backup/backup-ports.ts";

export interface BackupRequest {
  readonly vmid: number;
  readonly storage: string;
  readonly mode: "snapshot" | "suspend" | "stop";
  readonly compression: Compression;
  readonly notes?: string;
  readonly isProtected?: boolean;
}

export interface BackupWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly progress: (fraction: number) => void;
}

interface BackupDisk {
  readonly key: string;
  readonly device: number;
  readonly name: string;
  readonly storage: string;
  readonly path: string;
  readonly format: string;
  readonly size: number;
}

/** Returns the archive's volume id. Whatever goes wrong, no half archive is left and the VM runs as before. */
export async function backupVm(
  host: VmHost,
  tools: BackupTools,
  request: BackupRequest,
  work: BackupWork,
): Promise<string> {
  const { vmid } = request;
  const config = host.configs.get(vmid);
  const plugin = host.storages.plugin(request.storage);
  await plugin.activate();
  const lines: string[] = [];
  const log = (line: string): void => {
    lines.push(line);
    work.log(line);
  };
  const started = host.clock.now();
  const running = runningVm(host, vmid) !== undefined;
  log(`INFO: Starting Backup of VM ${vmid} (qemu)`);
  log(`INFO: status = ${running ? "running" : "stopped"}`);
  log(`INFO: backup mode: ${running ? request.mode : "stop"}`);
  const disks = await backupDisks(host, config, log);
  const fileName = `${backupBaseName("qemu", vmid, tools.civilTime(started))}.vma${SUFFIX[request.compression]}`;
  const volname = `backup/${fileName}`;
  const path = plugin.path(volname);
  const archive = await tools.createArchive(path, request.compression, {
    ctime: Math.floor(started / 1000),
    configs: new Map([["qemu-server.conf", Buffer.from(archivedConfig(config, disks))]]),
    devices: disks.map(({ device, name, size }) => ({ id: device, name, size })),
  });
  try {
    log(`INFO: creating vzdump archive '${path}'`);
    if (running && request.mode === "stop")
      throw new AppError(
        "feature.unsupported",
        "mode 'stop' of a running VM is not implemented yet: shut it down first, or use mode snapshot",
        { pveStatus: 500 },
      );
    await (running
      ? copyRunning(host, tools, request, disks, archive, { ...work, log })
      : copyStopped(tools, disks, archive, { ...work, log }));
    await archive.finish();
  } catch (err) {
    await archive.abandon();
    throw err;
  }
  await finishBackup(
    plugin,
    tools,
    { ...request, volname, path, fileName },
    lines,
    log,
    host.clock.now() - started,
  );
  return `${request.storage}:${volname}`;
}

async function backupDisks(
  host: VmHost,
  config: VmConfig,
  log: (line: string) => void,
): Promise<BackupDisk[]> {
  const disks: BackupDisk[] = [];
  for (const { key, drive } of listDisks(config.values)) {
    if (drive.backup === false) {
      log(`INFO: exclude disk '${key}' '${drive.file}' (backup=no)`);
      continue;
    }
    if (parseVolumeId(drive.file) === undefined)
      throw new AppError("feature.unsupported", `disk '${key}' is no volume and cannot be backed up`, {
        pveStatus: 500,
      });
    const { plugin, volname, storage } = volumeOf(host, drive.file);
    await plugin.activate();
    const { filename, format } = plugin.block(volname);
    const { size } = await plugin.info(volname);
    log(`INFO: include disk '${key}' '${drive.file}' ${size}`);
    disks.push({
      key,
      device: disks.length + 1,
      name: `drive-${key}`,
      storage,
      path: filename,
      format,
      size,
    });
  }
  return disks;
}

/** The configuration as it is, without snapshots and pending changes, and which device of the archive is which disk. */
function archivedConfig(config: VmConfig, disks: readonly BackupDisk[]): string {
  const { lock: _lock, parent: _parent, ...values } = config.values;
  const text = writeVmConfig({ ...emptyVmConfig, values });
  const map = disks.map(
    ({ key, name, storage, format }) => `#qmdump#map:${key}:${name}:${storage}:${format}:\n`,
  );
  return text + map.join("");
}

async function copyStopped(
  tools: BackupTools,
  disks: readonly BackupDisk[],
  archive: ArchiveWriter,
  work: BackupWork,
): Promise<void> {
  const total = disks.reduce((sum, { size }) => sum + size, 0);
  const report = reporter(total, work);
  for (const disk of disks) {
    await tools.withImage({ path: disk.path, format: disk.format, access: "ro" }, (source) =>
      copyOne(source, disk, archive, report, work),
    );
  }
}

async function copyRunning(
  host: VmHost,
  tools: BackupTools,
  request: BackupRequest,
  disks: readonly BackupDisk[],
  archive: ArchiveWriter,
  work: BackupWork,
): Promise<void> {
  const process = runningVm(host, request.vmid);
  if (process === undefined)
    throw new AppError("object.conflict", `VM ${request.vmid} stopped in the meantime`, { pveStatus: 500 });
  const pause = request.mode === "suspend";
  if (pause) await process.qmp.execute("stop");
  let fleece;
  try {
    fleece = await beginFleece(
      process,
      disks,
      tools,
      host.ioFolder(String(request.vmid)).replace(/\/io$/, ""),
    );
  } finally {
    // From here on the guest may write: what is old is kept for us.
    if (pause) await process.qmp.execute("cont");
  }
  try {
    const report = reporter(
      disks.reduce((sum, { size }) => sum + size, 0),
      work,
    );
    for (const disk of disks) {
      const source = await tools.openExport(fleece.socket, fleece.exportName(disk.key));
      try {
        await copyOne(source, disk, archive, report, work);
      } finally {
        source.close();
      }
    }
  } finally {
    await fleece.end();
  }
}

async function copyOne(
  source: DiskAccess,
  disk: BackupDisk,
  archive: ArchiveWriter,
  done: (bytes: number) => void,
  work: BackupWork,
): Promise<void> {
  const { read, zero } = await copyDisk(source, disk.device, archive, { signal: work.signal, done });
  work.log(`INFO: ${disk.key}: ${read} bytes read, ${zero} bytes are zero`);
}

function reporter(total: number, work: BackupWork): (bytes: number) => void {
  let done = 0;
  let told = 0;
  return (bytes) => {
    done += bytes;
    const percent = total === 0 ? 100 : Math.floor((done / total) * 100);
    work.progress(total === 0 ? 1 : done / total);
    if (percent < told + 10) return;
    told = percent;
    work.log(`INFO: ${percent}% (${done} of ${total} bytes)`);
  };
}

async function finishBackup(
  plugin: StoragePlugin,
  tools: BackupTools,
  backup: BackupRequest & { readonly volname: string; readonly path: string; readonly fileName: string },
  lines: readonly string[],
  log: (line: string) => void,
  tookMs: number,
): Promise<void> {
  const folder = backup.path.slice(0, -backup.fileName.length);
  if (backup.notes !== undefined && backup.notes !== "")
    await tools.writeSideFile(`${backup.path}${NOTES_SUFFIX}`, backup.notes);
  if (backup.isProtected === true) await plugin.setProtected(backup.volname, true);
  log(`INFO: Finished Backup of VM ${backup.vmid} (${clockText(tookMs)})`);
  const logName = logNameOf(backup.fileName);
  if (logName !== undefined) await tools.writeSideFile(`${folder}${logName}`, `${lines.join("\n")}\n`);
}

function clockText(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}
