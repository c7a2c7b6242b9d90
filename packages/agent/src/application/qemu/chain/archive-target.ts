// Where one backup goes: a full archive, or an incremental one on top of the last.
import { bitmapOf, type BackupPlan } from "@gpve/domain/backup/backup-chain.ts";
import {
  type BackupArchives,
  type Compression,
  type DiskAccess,
  SUFFIX,
  type TrackedDisk,
} from "@gpve/domain/backup/backup-ports.ts";
import { copyChanges, copyWhole, type Copied, type CopyWork } from "../backup/copy-changes.ts";
import { copyDisk } from "../backup/copy-disk.ts";

export interface TargetDisk {
  readonly key: string;
  readonly device: number;
  readonly name: string;
  readonly size: number;
}

/** A disk's content at the moment of the backup, with a bitmap when one is asked for. */
export interface DiskSource {
  whole<T>(use: (disk: DiskAccess) => Promise<T>): Promise<T>;
  tracked<T>(bitmap: string, use: (disk: TrackedDisk) => Promise<T>): Promise<T>;
}

export interface ArchiveTarget {
  /** The bitmap that says what to save of a disk; undefined = all of it. */
  bitmapFor(key: string): string | undefined;
  save(disk: TargetDisk, source: DiskSource, work: CopyWork): Promise<Copied>;
  finish(): Promise<void>;
  abandon(): Promise<void>;
}

export interface NewArchive {
  readonly uuid: string;
  readonly path: string;
  readonly ctime: number;
  readonly config: string;
  readonly compression: Compression;
}

/** The archive's extension. Incremental ones are always packed. */
export function extensionOf(plan: BackupPlan, compression: Compression): string {
  return plan.kind === "full" ? `.vma${SUFFIX[compression]}` : ".gpvi.zst";
}

export async function createTarget(
  tools: BackupArchives,
  plan: BackupPlan,
  archive: NewArchive,
  disks: readonly TargetDisk[],
): Promise<ArchiveTarget> {
  const { uuid, path, ctime } = archive;
  const configs = new Map([["qemu-server.conf", Buffer.from(archive.config)]]);
  if (plan.kind === "full") {
    const devices = disks.map(({ device, name, size }) => ({ id: device, name, size }));
    const writer = await tools.createArchive(path, archive.compression, { uuid, ctime, configs, devices });
    return {
      bitmapFor: () => undefined,
      save: (disk, source, work) =>
        source.whole(async (content) => ({
          ...(await copyDisk(content, disk.device, writer, work)),
          skipped: 0,
        })),
      finish: () => writer.finish(),
      abandon: () => writer.abandon(),
    };
  }
  const { parent, whole } = plan;
  const writer = await tools.createIncremental(path, {
    uuid,
    ctime,
    parent: { name: parent.archive, uuid: parent.uuid },
    configs,
    devices: disks.map(({ key, name, size }) => ({ name, size, whole: whole.has(key) })),
  });
  const bitmapFor = (key: string): string | undefined => (whole.has(key) ? undefined : bitmapOf(parent.uuid));
  return {
    bitmapFor,
    save: (disk, source, work) => {
      const index = disks.findIndex(({ key }) => key === disk.key);
      const bitmap = bitmapFor(disk.key);
      return bitmap === undefined
        ? source.whole((content) => copyWhole(content, index, writer, work))
        : source.tracked(bitmap, (content) => copyChanges(content, index, writer, work));
    },
    finish: () => writer.finish(),
    abandon: () => writer.abandon(),
  };
}
