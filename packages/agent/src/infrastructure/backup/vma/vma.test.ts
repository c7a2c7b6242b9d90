import { createHash, randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { VmaReader } from "./vma-reader.ts";
import { VmaWriter } from "./vma-writer.ts";

const uuid = Buffer.from("00112233445566778899aabbccddeeff", "hex");

/** An archive put together from the format's description, without the code under test: one disk of 70 000 bytes. */
function archiveByHand(): Buffer {
  const blobs = Buffer.alloc(512);
  let used = 1;
  const blob = (content: Buffer): number => {
    const position = used;
    blobs.writeUInt16LE(content.length, used);
    content.copy(blobs, used + 2);
    used += 2 + content.length;
    return position;
  };
  const header = Buffer.alloc(12_288 + 512);
  header.write("VMA\0", 0, "latin1");
  header.writeUInt32BE(1, 4);
  uuid.copy(header, 8);
  header.writeBigUInt64BE(1_700_000_000n, 24);
  header.writeUInt32BE(12_288, 48);
  header.writeUInt32BE(512, 52);
  header.writeUInt32BE(12_800, 56);
  header.writeUInt32BE(blob(Buffer.from("qemu-server.conf\0")), 2_044);
  header.writeUInt32BE(blob(Buffer.from("name: x\n")), 3_068);
  header.writeUInt32BE(blob(Buffer.from("drive-scsi0\0")), 4_096 + 32);
  header.writeBigUInt64BE(70_000n, 4_096 + 32 + 8);
  blobs.copy(header, 12_288);
  createHash("md5").update(header).digest().copy(header, 32);
  const extent = Buffer.alloc(512);
  extent.write("VMAE", 0, "latin1");
  extent.writeUInt16BE(2, 6);
  uuid.copy(extent, 8);
  // cluster 1 first: block 0; then cluster 0: block 15
  extent.writeUInt16BE(0x0001, 40);
  extent.writeUInt8(1, 43);
  extent.writeUInt32BE(1, 44);
  extent.writeUInt16BE(0x8000, 48);
  extent.writeUInt8(1, 51);
  extent.writeUInt32BE(0, 52);
  createHash("md5").update(extent).digest().copy(extent, 24);
  return Buffer.concat([header, extent, Buffer.alloc(4096, 0xbb), Buffer.alloc(4096, 0xaa)]);
}

async function restore(
  bytes: Buffer,
  chunk = 1000,
): Promise<{ header: VmaReader["header"]; disks: Map<string, Buffer> }> {
  async function* chunks() {
    for (let from = 0; from < bytes.length; from += chunk) yield bytes.subarray(from, from + chunk);
  }
  const reader = await VmaReader.open(chunks());
  const disks = new Map(reader.header.devices.map(({ name, size }) => [name, Buffer.alloc(size, 0xee)]));
  for await (const { device, offset, data } of reader.clusters())
    data.copy(disks.get(device.name) ?? Buffer.alloc(0), offset);
  return { header: reader.header, disks };
}

test("reads an archive made by hand from the format's description", async () => {
  const { header, disks } = await restore(archiveByHand());
  expect(header.ctime).toBe(1_700_000_000);
  expect([...header.configs].map(([name, content]) => [name, Buffer.from(content).toString()])).toEqual([
    ["qemu-server.conf", "name: x\n"],
  ]);
  const disk = Buffer.alloc(70_000);
  disk.fill(0xaa, 15 * 4096, 65_536);
  disk.fill(0xbb, 65_536, 65_536 + 4096);
  expect(disks.get("drive-scsi0")?.equals(disk)).toBe(true);
});

async function backup(disks: readonly Buffer[]): Promise<Buffer> {
  const parts: Buffer[] = [];
  const devices = disks.map((disk, index) => ({
    id: index + 1,
    name: `drive-scsi${index}`,
    size: disk.length,
  }));
  const writer = new VmaWriter(
    { uuid, ctime: 1, configs: new Map([["qemu-server.conf", Buffer.from("x: y\n")]]), devices },
    async (bytes) => void parts.push(Buffer.from(bytes)),
  );
  await writer.begin();
  for (const [index, disk] of disks.entries()) {
    for (let cluster = 0; cluster * 65_536 < disk.length; cluster++) {
      const data = disk.subarray(cluster * 65_536, (cluster + 1) * 65_536);
      if (cluster % 7 === 6 && data.every((byte) => byte === 0)) await writer.zeroCluster(index + 1, cluster);
      else await writer.cluster(index + 1, cluster, data);
    }
  }
  await writer.end();
  return Buffer.concat(parts);
}

test("gives back byte for byte what was written, whatever the disks and however the stream is cut", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 6_000_000 }), { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 1, max: 200_000 }),
      async (sizes, chunk) => {
        const disks = sizes.map((size) => {
          const disk = Buffer.alloc(size);
          for (let at = 0; at < size; at += 300_000) randomBytes(Math.min(5_000, size - at)).copy(disk, at);
          return disk;
        });
        const restored = await restore(await backup(disks), chunk);
        for (const [index, disk] of disks.entries())
          expect(restored.disks.get(`drive-scsi${index}`)?.equals(disk)).toBe(true);
      },
    ),
    { numRuns: 15 },
  );
});

test("refuses archives that were cut off, changed or are of another kind", async () => {
  const good = archiveByHand();
  await expect(restore(good.subarray(0, good.length - 1))).rejects.toThrow("ends too early");
  await expect(restore(good.subarray(0, 12_800))).rejects.toThrow(
    "drive-scsi0 is not complete: cluster 0 is missing",
  );
  await expect(restore(good.subarray(0, 100))).rejects.toThrow("ends too early");
  await expect(restore(Buffer.alloc(20_000))).rejects.toThrow("does not begin like a VMA archive");
  const flipped = (at: number): Buffer => {
    const copy = Buffer.from(good);
    copy[at] = (copy[at] ?? 0) ^ 1;
    return copy;
  };
  await expect(restore(flipped(12_300))).rejects.toThrow("header's checksum");
  await expect(restore(flipped(12_800 + 45))).rejects.toThrow("extent's checksum");
  await expect(restore(flipped(12_800))).rejects.toThrow("does not begin like one");
  const future = Buffer.from(good);
  future.writeUInt32BE(2, 4);
  await expect(restore(future)).rejects.toThrow("VMA version 2");
  await expect(restore(Buffer.concat([good, good.subarray(12_800)]))).rejects.toThrow("is there twice");
});
