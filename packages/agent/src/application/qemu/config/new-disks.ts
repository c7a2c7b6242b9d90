// Disks that a request asks for: `store:SIZE` allocates, `import-from` copies, anything else must be there already.
import { parameterError, refused } from "@gpve/domain/request/failures.ts";
import { NEW_DISK, newDiskBytes } from "@gpve/domain/vm/change/disk-size.ts";
import { fileNode, isDiskFormat } from "@gpve/domain/storage/block-node.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { firmwareImage } from "@gpve/domain/vm/argv/machine/firmware.ts";
import { guestArch } from "@gpve/domain/vm/argv/processor/guest-arch.ts";
import { isCdrom, isTpmState, printDrive, requireDrive, whyNotEmpty } from "@gpve/domain/vm/config/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import { keepNumberText } from "@gpve/domain/vm/config/number-text.ts";
import type { Drive } from "@gpve/domain/vm/config/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { allocateCloudinit, isNewCloudinit, type CloudinitDrivePorts } from "./cloudinit-drive.ts";
import { importDisk, type ImportDiskPorts } from "../disk/import-disk.ts";
import { volumeOf } from "../../guest/guest-storages.ts";
import type { QemuHost } from "@gpve/domain/vm/host/qemu-host.ts";

export interface NewDisksPorts extends CloudinitDrivePorts, ImportDiskPorts {
  readonly qemu: QemuHost;
}

type DiskFormat = "raw" | "qcow2" | "vmdk";

const GIB = 1024 ** 3;

export interface DiskWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly progress?: (fraction: number) => void;
  /** Of a task: called after each disk, so that its journal says how far it came. */
  readonly checkpoint?: () => Promise<void>;
  /** Of the VM that gets the disk: its firmware is of its architecture. */
  readonly values?: VmValues;
}

/** Whether making this drive takes more than a look at it. */
export function isNewDisk(key: string, text: string): boolean {
  if (!isDriveKey(key)) return false;
  const drive = requireDrive(key, text);
  return NEW_DISK.test(drive.file) || drive["import-from"] !== undefined || isNewCloudinit(drive);
}

/** The storage on which `STORAGE:SIZE` asks for a new disk. */
export function newDiskStorage(file: string): string | undefined {
  return NEW_DISK.exec(file)?.[1];
}

/** Storages on which a request will allocate, so that an undo knows where to look. */
export function storagesFor(values: Readonly<Record<string, string>>): string[] {
  const found = Object.entries(values).flatMap(([key, text]) => {
    if (!isDriveKey(key)) return [];
    const file = requireDrive(key, text).file;
    const name = NEW_DISK.exec(file)?.[1] ?? parseVolumeId(file)?.storage;
    return name === undefined ? [] : [name];
  });
  return [...new Set(found)];
}

/** What PVE looks at before it forks: storages must be there, and take disks where one is to be made. */
export function checkStorages(host: NewDisksPorts, values: Readonly<Record<string, string>>): void {
  for (const [key, text] of Object.entries(values)) {
    if (!isDriveKey(key)) continue;
    for (const storage of storagesFor({ [key]: text })) {
      const definition = host.storages.definition(storage);
      if (isNewDisk(key, text) && !contentOf(definition).has("images")) {
        throw parameterError({ storage: `storage '${storage}' does not support vm images` });
      }
    }
  }
}

/** The drive as it is stored: a real volume and its size. */
export async function makeDrive(
  host: NewDisksPorts,
  vmid: number,
  key: string,
  text: string,
  work: DiskWork,
): Promise<string> {
  const made = await madeDrive(host, vmid, key, requireDrive(key, text), work);
  const kept =
    work.values?.["template"] === "1" && isNewDisk(key, text) ? await baseOf(host, made, work) : made;
  return keepNumberText(text, printDrive(key, kept));
}

/** Disks of templates are there to be cloned. */
async function baseOf(host: NewDisksPorts, drive: Drive, work: DiskWork): Promise<Drive> {
  if (isCdrom(drive)) return drive;
  const { plugin, volname, storage } = volumeOf(host, drive.file);
  try {
    return {
      ...drive,
      file: formatVolumeId({ storage, volname: await plugin.createBase(volname, work) }),
    };
  } catch (err) {
    await plugin.free(volname);
    throw err;
  }
}

async function madeDrive(
  host: NewDisksPorts,
  vmid: number,
  key: string,
  drive: Drive,
  work: DiskWork,
): Promise<Drive> {
  const reason = whyNotEmpty(drive);
  if (reason !== undefined) throw parameterError({ [key]: reason });
  if (drive.file === "none" || drive.file === "cdrom" || drive.file.startsWith("/")) return drive;
  const source = drive["import-from"];
  if (source !== undefined) return importedDisk(host, vmid, key, drive, source, work);
  if (isNewCloudinit(drive)) return cloudinitDisk(host, vmid, drive, work);
  const wanted = NEW_DISK.exec(drive.file);
  if (wanted !== null) return allocateDisk(host, vmid, key, drive, wanted, work);
  return existingDisk(host, key, drive);
}

async function cloudinitDisk(
  host: NewDisksPorts,
  vmid: number,
  drive: Drive,
  work: DiskWork,
): Promise<Drive> {
  const { format, ...rest } = drive;
  const wanted = format === "qcow2" || format === "vmdk" || format === "raw" ? format : undefined;
  const storage = parseVolumeId(drive.file)?.storage ?? "";
  const file = await allocateCloudinit(host, vmid, storage, wanted, work);
  return { ...rest, file, media: "cdrom" };
}

async function allocateDisk(
  host: NewDisksPorts,
  vmid: number,
  key: string,
  drive: Drive,
  wanted: RegExpExecArray,
  work: DiskWork,
): Promise<Drive> {
  const storage = wanted[1];
  if (storage === undefined) {
    throw parameterError({ [key]: "no storage given for a new disk" });
  }
  const plugin = host.storages.plugin(storage);
  await plugin.activate();
  if (key === "efidisk0") return efiDisk(host, vmid, storage, drive, work);
  const size = newDiskBytes(key, Number(wanted[2]) * GIB);
  const format = isTpmState(key) ? "raw" : formatFor(host, storage, drive);
  work.log(`${key}: allocating ${size} bytes as ${format} on storage '${storage}'`);
  const volname = await plugin.alloc({ vmid, format, size }, { signal: work.signal, log: work.log });
  const { format: _asked, ...rest } = drive;
  return { ...rest, file: formatVolumeId({ storage, volname }), size };
}

/** A copy of the firmware's own variable store, with or without the keys for secure boot. */
async function efiDisk(
  host: NewDisksPorts,
  vmid: number,
  storage: string,
  drive: Drive,
  work: DiskWork,
): Promise<Drive> {
  const facts = host.qemu.facts();
  const { vars } = firmwareImage(facts, guestArch(work.values ?? {}, facts), drive, true);
  if (vars === undefined) throw new AppError("internal.error", "this firmware has no variable store");
  const plugin = host.storages.plugin(storage);
  work.log(`efidisk0: copying the firmware's variable store to storage '${storage}'`);
  const volname = await plugin.importFrom(
    { node: fileNode(vars), format: "raw", fromOutside: false },
    { vmid, format: formatFor(host, storage, drive) },
    { signal: work.signal, log: work.log },
  );
  const { size } = await plugin.info(volname);
  const { format: _asked, ...rest } = drive;
  return { ...rest, file: formatVolumeId({ storage, volname }), size };
}

async function importedDisk(
  host: NewDisksPorts,
  vmid: number,
  key: string,
  drive: Drive,
  from: string,
  work: DiskWork,
): Promise<Drive> {
  const storage = newDiskStorage(drive.file) ?? parseVolumeId(drive.file)?.storage ?? "";
  const format = isTpmState(key) ? "raw" : importFormat(host, storage, drive, from);
  const file = await importDisk(host, from, { vmid, key, storage, format }, work);
  const { plugin, volname } = volumeOf(host, file);
  const { size } = await plugin.info(volname);
  const { format: _asked, "import-from": _from, ...rest } = drive;
  return { ...rest, file, size };
}

/** A volume keeps its format where nobody asks for another; of a file nothing is taken for granted. */
function importFormat(host: NewDisksPorts, storage: string, drive: Drive, from: string): DiskFormat {
  if (drive.format !== undefined || parseVolumeId(from) === undefined) return formatFor(host, storage, drive);
  const { plugin, volname } = volumeOf(host, from);
  const { format } = plugin.parse(volname);
  return isDiskFormat(format)
    ? host.storages.plugin(storage).format(format)
    : formatFor(host, storage, drive);
}

async function existingDisk(host: NewDisksPorts, key: string, drive: Drive): Promise<Drive> {
  const { plugin, volname } = volumeOf(host, drive.file);
  const { format } = plugin.parse(volname);
  if (drive.format !== undefined && drive.format !== format)
    throw refused(
      `drive '${key}' - volume '${drive.file}' - 'format=${drive.format}' option different from storage format '${format}'`,
    );
  await plugin.activate();
  const { size } = await plugin.info(volname);
  // A CD shows the size of its image too; one that is empty has none.
  return isCdrom(drive) && size === 0 ? drive : { ...drive, size };
}

function formatFor(host: NewDisksPorts, storage: string, drive: Drive): DiskFormat {
  // What is asked for by name is refused by the storage where it has no such format.
  const { format } = drive;
  if (format === undefined) return host.storages.plugin(storage).format();
  return isDiskFormat(format) ? format : "raw";
}
