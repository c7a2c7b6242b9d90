// The disks of a VM as they are at one moment, to the node that keeps a copy: through its own QEMU while it runs, through
// qemu-nbd while it does not.
import type { ChangesWriter, DiskAccess, NodeFiles, OpenDisks } from "@gpve/domain/backup/backup-ports.ts";
import { copyChanges, copyWhole, type CopyWork } from "../backup/copy-changes.ts";
import { beginFleece, type Fleece } from "../backup/fleece.ts";
import type { Fleeced } from "../backup/fleecing-images.ts";
import { whileFrozen, type HeldVm, type HeldVmPorts } from "../backup/held-guest.ts";
import type { DiskSource } from "../chain/archive-target.ts";
import { runningVm } from "../running-vm.ts";
import type { ReplicaStep } from "./replica-step.ts";
import type { ReplicatedDisk } from "./replicated-disks.ts";

export interface SendDisks {
  readonly host: HeldVmPorts;
  readonly tools: OpenDisks & NodeFiles;
  readonly held: HeldVm;
  readonly disks: readonly ReplicatedDisk[];
  readonly step: ReplicaStep;
  readonly writer: ChangesWriter;
  readonly work: Parameters<typeof whileFrozen>[2];
}

export async function sendDisks(send: SendDisks): Promise<void> {
  const { host, tools, held, step, disks, work } = send;
  const process = runningVm(host, held.vmid);
  const moment = await step.begin();
  if (process === undefined) {
    for (const disk of disks) await sendOne(send, disk, fileSource(tools, disk));
    return;
  }
  // A guest that switches itself off meanwhile keeps its QEMU until all is read.
  const releaseHold = process.holdOpen();
  try {
    const drives = held.fleeced.map(({ key, scratch }) => {
      const size = disks.find((disk) => disk.key === key)?.size ?? 0;
      return { key, scratch, size, bitmap: step.bitmapFor(key) };
    });
    const begin = (): Promise<Fleece> => beginFleece(process, drives, tools, moment);
    const fleece = held.wasRunning ? await whileFrozen(host, held, work, begin) : await begin();
    for (const disk of disks) {
      const isFleeced = drives.some(({ key }) => key === disk.key);
      await sendOne(send, disk, isFleeced ? fleecedSource(tools, fleece, disk.key) : fileSource(tools, disk));
    }
  } finally {
    releaseHold();
  }
}

/** Where the old blocks go that the guest overwrites meanwhile. */
export function scratchFiles(disks: readonly ReplicatedDisk[], vmid: number, folder: string): Fleeced[] {
  return disks
    .filter(({ isInQemu }) => isInQemu)
    .map(({ key }) => ({ key, scratch: `${folder}/replicate-${vmid}-${key}.qcow2` }));
}

function fileSource(tools: OpenDisks, { node, format, backing }: ReplicatedDisk): DiskSource {
  const image = { node, format, backing, access: "ro" } as const;
  return {
    whole: (use) => tools.withImage(image, use),
    tracked: (bitmap, use) => tools.withTrackedImage({ ...image, bitmap }, use),
  };
}

function fleecedSource(tools: OpenDisks, fleece: Fleece, key: string): DiskSource {
  const name = fleece.exportName(key);
  const reading = async <D extends DiskAccess, T>(
    opening: Promise<D>,
    use: (disk: D) => Promise<T>,
  ): Promise<T> => {
    const disk = await opening;
    try {
      return await use(disk);
    } finally {
      await fleece.release(key);
      disk.close();
    }
  };
  return {
    whole: (use) => reading(tools.openExport(fleece.place, name), use),
    tracked: (bitmap, use) => reading(tools.openTrackedExport(fleece.place, name, bitmap), use),
  };
}

async function sendOne(
  { step, disks, writer, work }: SendDisks,
  disk: ReplicatedDisk,
  source: DiskSource,
): Promise<void> {
  const device = disks.indexOf(disk);
  const bitmap = step.bitmapFor(disk.key);
  const total = disks.reduce((sum, { size }) => sum + size, 0);
  let done = disks.slice(0, device).reduce((sum, { size }) => sum + size, 0);
  const copying: CopyWork = {
    signal: work.signal,
    done: (bytes) => {
      done += bytes;
      work.progress(total === 0 ? 1 : done / total);
    },
  };
  const { read, zero } =
    bitmap === undefined
      ? await source.whole((opened) => copyWhole(opened, device, writer, copying))
      : await source.tracked(bitmap, (opened) => copyChanges(opened, device, writer, copying));
  const changed = bitmap === undefined ? read : read + zero;
  const what = bitmap === undefined ? "with data" : "changed";
  work.log(`${disk.key}: ${mib(changed)} of ${mib(disk.size)} ${what}`);
}

export function mib(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}
