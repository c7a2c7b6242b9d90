import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { afterAll, expect, test } from "vitest";
import type { IncrementalExtent, IncrementalHeader } from "@gpve/domain/backup/backup-ports.ts";
import { encodeEnd, encodeExtent, encodeHead, MAX_EXTENT_BYTES, sha256 } from "./gpvi-format.ts";
import { GpviReader } from "./gpvi-reader.ts";
import { GpviWriter } from "./gpvi-writer.ts";
import { incrementalParent } from "./incremental-parent.ts";

const dir = mkdtempSync(join(tmpdir(), "gpve-gpvi-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const header: IncrementalHeader = {
  uuid: "0123456789abcdef0123456789abcdef",
  ctime: 1_700_000_000,
  parent: {
    name: "vzdump-qemu-100-2026_01_01-00_00_00.vma.zst",
    uuid: "fedcba9876543210fedcba9876543210",
  },
  configs: new Map([["qemu-server.conf", Buffer.from("name: web\n")]]),
  devices: [
    { name: "drive-scsi0", size: 16 * 1024 * 1024, whole: false },
    { name: "drive-scsi1", size: 1024, whole: true },
  ],
};

async function written(fill: (writer: GpviWriter) => Promise<void>): Promise<Buffer> {
  const parts: Buffer[] = [];
  const writer = new GpviWriter(header, async (bytes) => void parts.push(Buffer.from(bytes)));
  await writer.begin();
  await fill(writer);
  await writer.end();
  return Buffer.concat(parts);
}

async function* chunks(bytes: Uint8Array, size = 1000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function readAll(bytes: Uint8Array): Promise<IncrementalExtent[]> {
  const reader = await GpviReader.open(chunks(bytes));
  const extents: IncrementalExtent[] = [];
  for await (const extent of reader.extents()) extents.push(extent);
  return extents;
}

test("gives back what was written: header, data in pieces, zeroes", async () => {
  const large = randomBytes(MAX_EXTENT_BYTES + 777);
  const bytes = await written(async (writer) => {
    await writer.data(0, 65_536, large);
    await writer.zeroes(0, 8 * 1024 * 1024, 1024 * 1024);
    await writer.data(1, 0, Buffer.from("end"));
  });
  const reader = await GpviReader.open(chunks(bytes, 7_777));
  expect(reader.header).toEqual(header);
  const extents = await readAll(bytes);
  expect(extents.map(({ device, offset, length }) => [device, offset, length])).toEqual([
    [0, 65_536, MAX_EXTENT_BYTES],
    [0, 65_536 + MAX_EXTENT_BYTES, 777],
    [0, 8 * 1024 * 1024, 1024 * 1024],
    [1, 0, 3],
  ]);
  expect(Buffer.concat(extents.slice(0, 2).map(({ data }) => data ?? Buffer.alloc(0))).equals(large)).toBe(
    true,
  );
  expect(extents[2]?.data).toBeUndefined();
});

test("knows an archive that is cut anywhere, or has one byte changed anywhere", async () => {
  const bytes = await written(async (writer) => {
    await writer.data(0, 0, randomBytes(300));
    await writer.zeroes(0, 4096, 4096);
  });
  for (let length = 0; length < bytes.length; length++)
    await expect(readAll(bytes.subarray(0, length)), `cut at ${length}`).rejects.toThrow(/damaged/);
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 0x40;
    await expect(readAll(changed), `changed at ${at}`).rejects.toThrow(/incremental backup/);
  }
  await expect(readAll(Buffer.concat([bytes, Buffer.from("x")]))).rejects.toThrow("goes on after its end");
});

test("refuses what an archive of ours never says", async () => {
  const data = Buffer.from("x");
  const extent = { device: 0, offset: 0, length: 1, isZero: false, sha256: sha256(data) };
  const archive = (...parts: Buffer[]): Buffer => Buffer.concat([encodeHead(header), ...parts]);
  await expect(readAll(archive(encodeExtent({ ...extent, device: 9 })))).rejects.toThrow("device 9");
  await expect(readAll(archive(encodeExtent({ ...extent, device: 1, offset: 1024 }), data))).rejects.toThrow(
    "beyond its end",
  );
  await expect(readAll(archive(encodeExtent({ ...extent, length: MAX_EXTENT_BYTES + 1 })))).rejects.toThrow(
    "bytes long",
  );
  await expect(readAll(archive(encodeExtent(extent), data, encodeEnd(2, sha256(data))))).rejects.toThrow(
    "should have 2 extents",
  );
  const newer = encodeHead(header);
  newer.writeUInt32BE(2, 8);
  await expect(readAll(newer)).rejects.toThrow("has version 2; this version reads 1");
  const endless = encodeHead(header);
  endless.writeUInt32BE(0xffff_ffff, 12);
  await expect(readAll(endless)).rejects.toThrow("bytes long");
  for (const bad of [
    { ...header, uuid: "short" },
    { ...header, parent: { ...header.parent, name: "../x" } },
    { ...header, parent: { ...header.parent, name: ".hidden" } },
  ])
    await expect(readAll(encodeHead(bad))).rejects.toThrow("does not say what it is");
  await expect(
    readAll(encodeHead({ ...header, devices: [{ name: "drive-scsi0", size: -1, whole: true }] })),
  ).rejects.toThrow("a device that is none");
});

test("names its parent without being read to the end, and nothing when it cannot be read", async () => {
  const bytes = await written((writer) => writer.data(0, 0, randomBytes(1024 * 1024)));
  const packed = join(dir, "a.gpvi.zst");
  writeFileSync(packed, zstdCompressSync(bytes).subarray(0, 600_000));
  expect(await incrementalParent(packed)).toBe(header.parent.name);
  writeFileSync(join(dir, "b.gpvi"), bytes);
  expect(await incrementalParent(join(dir, "b.gpvi"))).toBe(header.parent.name);
  expect(await incrementalParent(join(dir, "absent.gpvi.zst"))).toBeUndefined();
  writeFileSync(packed, "no archive");
  expect(await incrementalParent(packed)).toBeUndefined();
});
