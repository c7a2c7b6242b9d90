// `import-from`: a new disk with the content of a volume or a file. A disk that a running VM writes to is copied by
// its QEMU, as one moment of it; everything else by qemu-img.
import { refused } from "@gpve/domain/request/failures.ts";
import { fileNode } from "@gpve/domain/storage/block-node.ts";
import { given } from "@gpve/contracts/given.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { ImageSource } from "@gpve/domain/storage/plugin.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import {
  isCloudinitVolume,
  isInQemu,
  isTpmState,
  listDrives,
  parseDrive,
} from "@gpve/domain/vm/config/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { ignore } from "@gpve/kit/background.ts";
import { withPrefix } from "../pve-words.ts";
import { withFrozenFilesystems, type UseGuestAgentPorts } from "../agent/use-guest-agent.ts";
import { copyAtOneMoment, dropCopies, dropCopy, type CopyTarget } from "./qemu-copy.ts";
import { runningVm } from "../running-vm.ts";
import { fileOf, volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";

export interface ImportDiskPorts extends UseGuestAgentPorts {
  readonly storages: GuestStorages;
}

export interface ImportWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly progress?: (fraction: number) => void;
}

export interface ImportedDrive {
  readonly vmid: number;
  /** "scsi0", for which it is. */
  readonly key: string;
  readonly storage: string;
  readonly format: "raw" | "qcow2" | "vmdk";
}

/** Returns the new volume. Nothing is left of one that failed. */
export async function importDisk(
  host: ImportDiskPorts,
  from: string,
  target: ImportedDrive,
  work: ImportWork,
): Promise<string> {
  await host.storages.plugin(target.storage).activate();
  if (from.startsWith("/"))
    return convert(
      host,
      from,
      { node: fileNode(from), format: formatOfName(from), fromOutside: true },
      target,
      work,
    );
  return withPrefix(`cannot import from '${from}' - `, async () => {
    if (isCloudinitVolume(from)) throw refused("cannot import from cloudinit disk");
    const { plugin, volname } = volumeOf(host, from);
    await plugin.activate();
    const user = userOf(host, from);
    if (user !== undefined) return copyLive(host, from, user, target, work);
    const source = await plugin.attach(volname).catch((err: unknown) => {
      if (!isAppError(err, "object.not_found")) throw err;
      throw refused(`could not get size of ${from}`);
    });
    return convert(host, from, source, target, work);
  });
}

/** After a crash a QEMU may still copy for disks that nobody will have: it stops. `made` are the volumes meant for it. */
export async function dropImports(
  host: ImportDiskPorts,
  vmid: number,
  values: VmValues,
  made: readonly string[],
): Promise<void> {
  for (const [key, text] of Object.entries(values)) {
    const from = isDriveKey(key) ? parseDrive(key, text)?.["import-from"] : undefined;
    const user = from === undefined || parseVolumeId(from) === undefined ? undefined : userOf(host, from);
    if (user === undefined) continue;
    const files = made.flatMap((volid) => fileOf(host, volid));
    await dropCopies(user.process, [jobId(vmid, key)], files);
  }
}

interface DiskUser {
  readonly vmid: number;
  readonly process: QemuProcess;
  readonly key: string;
}

/** The running VM that has this volume as a disk. */
function userOf(host: ImportDiskPorts, volid: string): DiskUser | undefined {
  const { plugin, volname } = volumeOf(host, volid);
  const { type, vmid } = plugin.parse(volname);
  const process = type !== "images" || vmid === undefined ? undefined : runningVm(host, vmid);
  if (process === undefined || vmid === undefined) return undefined;
  const values = host.configs.find(vmid)?.values ?? {};
  const key = listDrives(values).find(({ drive }) => drive.file === volid)?.key;
  if (key === undefined || (!isInQemu(values, key) && !isTpmState(key))) return undefined;
  return { vmid, process, key };
}

async function copyLive(
  host: ImportDiskPorts,
  from: string,
  { vmid, process, key }: DiskUser,
  target: ImportedDrive,
  work: ImportWork,
): Promise<string> {
  if (isTpmState(key)) throw refused("cannot clone TPM state while VM is running");
  const { signal, log, progress } = work;
  const source = volumeOf(host, from);
  const { size } = await source.plugin.info(source.volname);
  const plugin = host.storages.plugin(target.storage);
  log(`importing ${from} of the running VM ${vmid} to storage '${target.storage}'`);
  const volname = await plugin.alloc({ vmid: target.vmid, format: target.format, size }, { signal, log });
  const id = jobId(target.vmid, target.key);
  const copy: CopyTarget = { block: plugin.block(volname), node: id };
  try {
    await copyAtOneMoment(
      process,
      [{ id, key, target: copy }],
      {
        signal,
        onProgress: (job) => {
          if (job["total-progress"] > 0) progress?.(job["current-progress"] / job["total-progress"]);
        },
      },
      (begin) => withFrozenFilesystems(host, vmid, { signal, log, warn: log }, begin),
    );
  } catch (err) {
    if (!process.hasExited)
      await dropCopy(process, id, copy).catch((failure: unknown) =>
        ignore(failure, "the guest may have ended"),
      );
    await plugin.free(volname);
    throw err;
  }
  return formatVolumeId({ storage: target.storage, volname });
}

async function convert(
  host: ImportDiskPorts,
  from: string,
  source: ImageSource,
  { vmid, storage, format }: ImportedDrive,
  { signal, log, progress }: ImportWork,
): Promise<string> {
  log(`importing ${from} to storage '${storage}'`);
  const volname = await host.storages
    .plugin(storage)
    .importFrom(source, { vmid, format }, { signal, log, ...given({ progress }) });
  return formatVolumeId({ storage, volname });
}

function jobId(vmid: number, key: string): string {
  return `import-${vmid}-${key}`;
}

function formatOfName(path: string): "raw" | "qcow2" | "vmdk" {
  const extension = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  return extension === "qcow2" || extension === "vmdk" ? extension : "raw";
}
