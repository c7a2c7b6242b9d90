// From the disks of one VM into its archive: through its own QEMU while it runs, through qemu-nbd while it does not.
import type { NodeFiles, OpenDisks } from "@gpve/domain/backup/backup-ports.ts";
import { bytesText } from "@gpve/domain/backup/backup-texts.ts";
import { shutDown, type StopVmPorts } from "../power/stop-vm.ts";
import type { ArchiveTarget, DiskSource } from "../chain/archive-target.ts";
import type { BackupDisk } from "./backup-disks.ts";
import { BackupProgress } from "./backup-progress.ts";
import type { BackupArgs, BackupMode, BackupWork } from "../../guest/backup/backup-request.ts";
import type { ChainStep } from "../chain/chain-step.ts";
import { beginFleece, endFleece } from "./fleece.ts";
import { whileFrozen, type HeldVm } from "./held-guest.ts";
import { requireRunningVm, runningVm } from "../running-vm.ts";

export interface GuestCopy {
  readonly host: StopVmPorts;
  readonly tools: OpenDisks & NodeFiles;
  readonly args: BackupArgs;
  readonly held: HeldVm;
  readonly disks: readonly BackupDisk[];
  readonly step: ChainStep;
  readonly work: BackupWork & { readonly checkpoint: () => Promise<void> };
}

/** Shuts the guest down, or pauses it; `releaseGuest` knows the way back. Returns when that was. */
export async function haltGuest(copy: GuestCopy, mode: BackupMode): Promise<number | undefined> {
  const { host, held, args, work } = copy;
  const { vmid } = held;
  if (mode === "snapshot") return undefined;
  const at = host.clock.now();
  const process = requireRunningVm(host, vmid);
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

export async function copyStopped(copy: GuestCopy, archive: ArchiveTarget): Promise<void> {
  await copy.step.begin();
  const progress = progressOf(copy);
  for (const disk of copy.disks) await copyFile(copy, disk, archive, progress);
  progress.end();
}

/** `haltedAt`: it was halted by us then and goes on as soon as QEMU keeps the old blocks. */
export async function copyRunning(
  copy: GuestCopy,
  archive: ArchiveTarget,
  mode: BackupMode,
  haltedAt: number | undefined,
): Promise<void> {
  const { host, tools, held, disks, work } = copy;
  const { vmid } = held;
  if (mode === "stop") {
    work.log("INFO: starting kvm to execute backup task");
    await host.starter.start({ vmid, skiplock: true, paused: true }, work);
  }
  const process = requireRunningVm(host, vmid);
  // A guest that switches itself off meanwhile keeps its QEMU until all is read.
  const releaseHold = process.holdOpen();
  try {
    const drives = disks.flatMap(({ key, size }) => {
      const scratch = held.fleeced.find((each) => each.key === key)?.scratch;
      return scratch === undefined ? [] : [{ key, size, scratch, bitmap: archive.bitmapFor(key) }];
    });
    const moment = await copy.step.begin();
    const begin = () => beginFleece(process, drives, tools, moment);
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
      const { place } = fleece;
      const name = fleece.exportName(disk.key);
      const release = () => fleece.release(disk.key);
      const source: DiskSource = {
        whole: (use) => reading(tools.openExport(place, name), use, release),
        tracked: (bitmap, use) => reading(tools.openTrackedExport(place, name, bitmap), use, release),
      };
      await copyOne(copy, source, disk, archive, progress);
    }
    progress.end();
  } finally {
    releaseHold();
  }
}

/** QEMU keeps no old blocks any more, and lets go of its bitmaps. */
export async function endReading({ host, tools, held }: GuestCopy): Promise<void> {
  const process = runningVm(host, held.vmid);
  if (process !== undefined) await endFleece(process, held.fleeced, tools);
}

/** A file that no QEMU has open: of a stopped VM, or the state of a TPM. */
function copyFile(
  copy: GuestCopy,
  disk: BackupDisk,
  archive: ArchiveTarget,
  progress: BackupProgress,
): Promise<void> {
  const { tools, args } = copy;
  const { node, format, backing = [] } = disk;
  const image = { node, format, backing, access: "ro", ionice: args.ionice } as const;
  const source: DiskSource = {
    whole: (use) => tools.withImage(image, use),
    tracked: (bitmap, use) => tools.withTrackedImage({ ...image, bitmap }, use),
  };
  return copyOne(copy, source, disk, archive, progress);
}

async function reading<D extends { close(): void }, T>(
  opening: Promise<D>,
  use: (disk: D) => Promise<T>,
  release: () => Promise<void>,
): Promise<T> {
  const disk = await opening;
  try {
    return await use(disk);
  } finally {
    await release();
    disk.close();
  }
}

async function copyOne(
  { work }: GuestCopy,
  source: DiskSource,
  disk: BackupDisk,
  archive: ArchiveTarget,
  progress: BackupProgress,
): Promise<void> {
  const { read, zero, skipped } = await archive.save(disk, source, {
    signal: work.signal,
    done: (bytes, isZero) => progress.add(bytes, isZero),
  });
  if (archive.bitmapFor(disk.key) === undefined) return;
  const dirty = read + zero;
  const share = `${bytesText(dirty, 1)} of ${bytesText(dirty + skipped, 1)} dirty`;
  work.log(`INFO: ${disk.key}: dirty-bitmap status: OK (${dirty === 0 ? "drive clean" : share})`);
}

function progressOf({ host, args, disks, work }: GuestCopy): BackupProgress {
  const total = disks.reduce((sum, { size }) => sum + size, 0);
  return new BackupProgress(total, args.bwlimit, host.clock, work);
}

function secondsSince(host: StopVmPorts, at: number): number {
  return Math.round((host.clock.now() - at) / 1000);
}
