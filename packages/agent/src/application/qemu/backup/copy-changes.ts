// What an incremental archive takes of a disk: the changed parts, or all of a disk that its parent does not have.
import type {
  ChangedExtent,
  DiskAccess,
  ChangesWriter,
  TrackedDisk,
} from "@gpve/domain/backup/backup-ports.ts";

const CHUNK_BYTES = 4 * 1024 * 1024;

export interface CopyWork {
  readonly signal: AbortSignal;
  readonly done: (bytes: number, isZero: boolean) => Promise<void> | void;
}

export interface Copied {
  readonly read: number;
  readonly zero: number;
  readonly skipped: number;
}

/** Zeroes count: there may be something else in the parent. */
export function copyChanges(
  disk: TrackedDisk,
  device: number,
  archive: ChangesWriter,
  work: CopyWork,
): Promise<Copied> {
  return copy(disk, (offset, length) => disk.changes(offset, length), device, archive, work, true);
}

/** Zeroes do not count: a disk that is whole in the archive begins empty. */
export function copyWhole(
  disk: DiskAccess,
  device: number,
  archive: ChangesWriter,
  work: CopyWork,
): Promise<Copied> {
  const all = async (_offset: number, length: number): Promise<readonly ChangedExtent[]> => [
    { length, isDirty: true },
  ];
  return copy(disk, all, device, archive, work, false);
}

async function copy(
  disk: DiskAccess,
  changes: TrackedDisk["changes"],
  device: number,
  archive: ChangesWriter,
  work: CopyWork,
  zeroesCount: boolean,
): Promise<Copied> {
  let read = 0;
  let zero = 0;
  let skipped = 0;
  for (let offset = 0; offset < disk.size;) {
    work.signal.throwIfAborted();
    for (const { length, isDirty } of await changes(offset, disk.size - offset)) {
      const end = Math.min(offset + length, disk.size);
      if (!isDirty) {
        skipped += end - offset;
        await work.done(end - offset, true);
        offset = end;
        continue;
      }
      while (offset < end) {
        work.signal.throwIfAborted();
        const part = await next(disk, offset, end - offset);
        if (part.data !== undefined) await archive.data(device, offset, part.data);
        else if (zeroesCount) await archive.zeroes(device, offset, part.length);
        if (part.data === undefined) zero += part.length;
        else read += part.length;
        offset += part.length;
        await work.done(part.length, part.data === undefined);
      }
    }
  }
  return { read, zero, skipped };
}

/** The next stretch: known zeroes without reading them, or bytes. */
async function next(
  disk: DiskAccess,
  offset: number,
  left: number,
): Promise<{ readonly length: number; readonly data: Uint8Array | undefined }> {
  const [first] = await disk.extents(offset, left);
  const known = Math.min(first?.length ?? left, left);
  if (first?.isZero === true && known > 0) return { length: known, data: undefined };
  const length = Math.min(known > 0 ? known : left, CHUNK_BYTES);
  const data = await disk.read(offset, length);
  return { length, data: isZero(data) ? undefined : data };
}

const ZEROES = Buffer.alloc(CHUNK_BYTES);

function isZero(bytes: Uint8Array): boolean {
  return ZEROES.subarray(0, bytes.length).equals(bytes);
}
