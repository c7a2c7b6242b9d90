// From the disks of one VM into its archive: through its own QEMU while it runs, through qemu-nbd while it does not.
import type { ArchiveWriter, BackupTools, DiskAccess } from "@gpve/domain/backup/backup-ports.ts";
import { shutDown } from "../vm/stop-vm.ts";
import { startVm } from "../vm/start-vm.ts";
import { requireRunning, type VmHost } from "../vm/vm-host.ts";
import type { BackupDisk } from "./backup-disks.ts";
import { BackupProgress } from "./backup-progress.ts";
import type { BackupArgs, BackupMode, BackupWork, HeldGuest } from "./backup-request.ts";
import { copyDisk } from "./copy-disk.ts";
import { beginFleece } from "./fleece.ts";
import { whileFrozen } from "./held-guest.ts";

export interface GuestCopy {
  readonly host: VmHost;
  readonly tools: BackupTools;
  readonly args: BackupArgs;
  readonly held: HeldGuest;
  readonly disks: readonly BackupDisk[];
  readonly work: BackupWork & { readonly checkpoint: () => Promise<void> };
}

/** Shuts the guest down, or pauses it; `releaseGuest` knows the way back. Returns when that was. */
export async function haltGuest(copy: GuestCopy, mode: BackupMode): Promise<number | undefined> {
  const { host, held, args, work } = copy;
  const { vmid } = held;
  if (mode === "snapshot") return undefined;
  const at = host.clock.now();
  const process = requireRunning(host, vmid);
  if (mode === "suspend") {
    work.log("INFO: suspending guest");
    await process.qmp.execute("stop", undefined, { signal: work.signal });
    return at;
  }
  work.log("INFO: stopping virtual guest");
  held.isStopped = true;
  await work.checkpoint();
  const limits = { timeoutSeconds: args.stopwaitMinutes * 60, forceStop: false };
  await shutDown(host, process, { vmid, ...limits }, work);
  return at;
}

export async function copyStopped(copy: GuestCopy, archive: ArchiveWriter): Promise<void> {
  const progress = progressOf(copy);
  for (const disk of copy.disks) await copyFile(copy, disk, archive, progress);
  progress.end();
}

/** `haltedAt`: it was halted by us then and goes on as soon as QEMU keeps the old blocks. */
export async function copyRunning(
  copy: GuestCopy,
  archive: ArchiveWriter,
  mode: BackupMode,
  haltedAt: number | undefined,
): Promise<void> {
  const { host, tools, held, disks, work } = copy;
  const { vmid } = held;
  if (mode === "stop") {
    work.log("INFO: starting kvm to execute backup task");
    await startVm(host, { vmid, skiplock: true, paused: true }, work);
  }
  const process = requireRunning(host, vmid);
  // A guest that switches itself off meanwhile keeps its QEMU until all is read.
  const letGo = process.holdOpen();
  try {
    const drives = disks.flatMap(({ key, size }) => {
      const scratch = held.fleeced.find((each) => each.key === key)?.scratch;
      return scratch === undefined ? [] : [{ key, size, scratch }];
    });
    const begin = () => beginFleece(process, drives, tools);
    const fleece =
      mode === "snapshot" && held.wasRunning ? await whileFrozen(host, held, work, begin) : await begin();
    if (held.wasRunning) {
      const after = haltedAt === undefined ? "" : ` after ${secondsSince(host, haltedAt)} seconds`;
      work.log(`INFO: resuming VM again${after}`);
      await process.qmp.execute("cont");
    }
    const progress = progressOf(copy);
    for (const disk of disks) {
      if (!drives.some(({ key }) => key === disk.key)) {
        await copyFile(copy, disk, archive, progress);
        continue;
      }
      const source = await tools.openExport(fleece.socket, fleece.exportName(disk.key));
      try {
        await copyOne(copy, source, disk, archive, progress);
      } finally {
        source.close();
      }
    }
    progress.end();
  } finally {
    letGo();
  }
}

/** A file that no QEMU has open: of a stopped VM, or the state of a TPM. */
function copyFile(
  copy: GuestCopy,
  disk: BackupDisk,
  archive: ArchiveWriter,
  progress: BackupProgress,
): Promise<void> {
  const { path, format } = disk;
  return copy.tools.withImage({ path, format, access: "ro", ionice: copy.args.ionice }, (source) =>
    copyOne(copy, source, disk, archive, progress),
  );
}

async function copyOne(
  { work }: GuestCopy,
  source: DiskAccess,
  disk: BackupDisk,
  archive: ArchiveWriter,
  progress: BackupProgress,
): Promise<void> {
  await copyDisk(source, disk.device, archive, {
    signal: work.signal,
    done: (bytes, isZero) => progress.add(bytes, isZero),
  });
}

function progressOf({ host, args, disks, work }: GuestCopy): BackupProgress {
  const total = disks.reduce((sum, { size }) => sum + size, 0);
  return new BackupProgress(total, args.bwlimit, host.clock, work);
}

function secondsSince(host: VmHost, at: number): number {
  return Math.round((host.clock.now() - at) / 1000);
}
