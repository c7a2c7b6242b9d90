import { CLUSTER_BYTES, type ArchiveWriter, type DiskAccess } from "@gpve/domain/backup/backup-ports.ts";

/** Read at once where data is. */
const CHUNK_CLUSTERS = 64;

/** Writes every cluster of a disk into the archive; holes are not read. Reports bytes done. */
export async function copyDisk(
  disk: DiskAccess,
  device: number,
  archive: ArchiveWriter,
  work: {
    readonly signal: AbortSignal;
    readonly done: (bytes: number, isZero: boolean) => Promise<void> | void;
  },
): Promise<{ read: number; zero: number }> {
  let read = 0;
  let zero = 0;
  for (let offset = 0; offset < disk.size;) {
    work.signal.throwIfAborted();
    const span = await nextSpan(disk, offset);
    const clusters = Math.ceil(span.length / CLUSTER_BYTES);
    const data = span.isZero ? undefined : await disk.read(offset, span.length);
    for (let index = 0; index < clusters; index++) {
      const cluster = offset / CLUSTER_BYTES + index;
      if (data === undefined) await archive.zeroCluster(device, cluster);
      else
        await archive.cluster(
          device,
          cluster,
          data.subarray(index * CLUSTER_BYTES, (index + 1) * CLUSTER_BYTES),
        );
    }
    if (span.isZero) zero += span.length;
    else read += span.length;
    offset += span.length;
    await work.done(span.length, span.isZero);
  }
  return { read, zero };
}

/** Whole clusters that are all hole, or a stretch to be read; the last one ends with the disk. */
async function nextSpan(disk: DiskAccess, offset: number): Promise<{ length: number; isZero: boolean }> {
  const left = disk.size - offset;
  const [first] = await disk.extents(offset, left);
  const known = first ?? { length: left, isZero: false };
  if (known.isZero) {
    const length = known.length >= left ? left : Math.floor(known.length / CLUSTER_BYTES) * CLUSTER_BYTES;
    if (length > 0) return { length, isZero: true };
  }
  const wanted = Math.ceil(Math.max(known.length, 1) / CLUSTER_BYTES) * CLUSTER_BYTES;
  return { length: Math.min(left, wanted, CHUNK_CLUSTERS * CLUSTER_BYTES), isZero: false };
}
