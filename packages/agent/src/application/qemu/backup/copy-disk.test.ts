import { expect, test } from "vitest";
import { CLUSTER_BYTES } from "@gpve/domain/backup/backup-ports.ts";
import { copyDisk } from "./copy-disk.ts";
import type { ArchiveWriter, DiskAccess } from "@gpve/domain/backup/backup-ports.ts";

/** Named fake: a disk in memory whose holes are known. */
function fakeDisk(
  content: Buffer,
  holes: readonly [from: number, to: number][],
): DiskAccess & { readonly reads: number[] } {
  const reads: number[] = [];
  return {
    size: content.length,
    reads,
    read: async (offset, length) => {
      reads.push(offset);
      return content.subarray(offset, offset + length);
    },
    extents: async (offset, length) => {
      const hole = holes.find(([from, to]) => offset >= from && offset < to);
      if (hole !== undefined) return [{ length: hole[1] - offset, isZero: true }];
      const next = holes
        .map(([from]) => from)
        .filter((from) => from > offset)
        .toSorted((a, b) => a - b)[0];
      return [{ length: (next ?? offset + length) - offset, isZero: false }];
    },
    write: async () => undefined,
    writeZeroes: async () => undefined,
    flush: async () => undefined,
    close: () => undefined,
  };
}

async function copy(
  content: Buffer,
  holes: readonly [number, number][],
): Promise<{ restored: Buffer; disk: ReturnType<typeof fakeDisk>; zero: number }> {
  const restored = Buffer.alloc(content.length, 0xee);
  const archive: ArchiveWriter = {
    cluster: async (_device, cluster, data) => {
      restored.set(data, cluster * CLUSTER_BYTES);
    },
    zeroCluster: async (_device, cluster) =>
      void restored.fill(0, cluster * CLUSTER_BYTES, Math.min(content.length, (cluster + 1) * CLUSTER_BYTES)),
    finish: async () => undefined,
    abandon: async () => undefined,
  };
  const disk = fakeDisk(content, holes);
  let done = 0;
  const { zero } = await copyDisk(disk, 1, archive, {
    signal: new AbortController().signal,
    done: (bytes) => void (done += bytes),
  });
  expect(done).toBe(content.length);
  return { restored, disk, zero };
}

test("copies every byte of a disk that ends in the middle of a cluster", async () => {
  const content = Buffer.alloc(5 * CLUSTER_BYTES + 777, 3);
  expect((await copy(content, [])).restored.equals(content)).toBe(true);
});

test("does not read what is known to be a hole, but reads clusters that are only partly one", async () => {
  const content = Buffer.alloc(300 * CLUSTER_BYTES, 7);
  const hole: [number, number] = [10 * CLUSTER_BYTES + 4096, 200 * CLUSTER_BYTES + 512];
  content.fill(0, ...hole);
  const { restored, disk, zero } = await copy(content, [hole]);
  expect(restored.equals(content)).toBe(true);
  expect(zero).toBeGreaterThan(180 * CLUSTER_BYTES);
  expect(disk.reads.some((offset) => offset > 20 * CLUSTER_BYTES && offset < 190 * CLUSTER_BYTES)).toBe(
    false,
  );
});

test("takes a disk that is nothing but hole, and stops when told to", async () => {
  const content = Buffer.alloc(3 * CLUSTER_BYTES + 5);
  const { restored, disk } = await copy(content, [[0, content.length]]);
  expect(restored.equals(content)).toBe(true);
  expect(disk.reads).toEqual([]);
  const stopped = AbortSignal.abort(new Error("enough"));
  const work = { signal: stopped, done: () => undefined };
  await expect(copyDisk(fakeDisk(content, []), 1, {} as ArchiveWriter, work)).rejects.toThrow("enough");
});
