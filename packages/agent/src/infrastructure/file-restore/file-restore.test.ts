// File systems of backups: ext ones made by mke2fs, FAT and partition tables put together here byte by byte.
import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { FileTree, RandomAccess } from "@gpve/domain/backup/file-tree.ts";
import { exec } from "@gpve/kit/exec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { type ExtInode, runsOf } from "./ext-inode.ts";
import { diskFormats } from "./disk-formats.ts";
import { FileSpool } from "./file-spool.ts";

const dir = mkdtempSync(join(tmpdir(), "gpve-files-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const mke2fs = ["/usr/sbin/mke2fs", "/sbin/mke2fs"].find((path) => existsSync(path));
const large = randomBytes(5 * 1024 * 1024 + 321);

const memory = (bytes: Buffer): RandomAccess => ({
  size: bytes.length,
  read: async (offset, length) => bytes.subarray(Math.max(0, offset), Math.max(0, offset) + length),
});
const bytesOf = async (body: AsyncIterable<Uint8Array>): Promise<Buffer> => {
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts);
};
const names = async (tree: FileTree, ...path: string[]): Promise<string[]> =>
  (await tree.list(path)).map(({ name, kind }) => `${kind}:${name}`).toSorted();

function files(): string {
  const root = join(dir, "root");
  if (existsSync(root)) return root;
  mkdirSync(join(root, "etc/deep/er"), { recursive: true });
  writeFileSync(join(root, "etc/hostname"), "web\n", { mode: 0o640 });
  writeFileSync(join(root, "etc/deep/er/large"), large);
  writeFileSync(join(root, "sparse"), "begin");
  truncateSync(join(root, "sparse"), 3 * 1024 * 1024);
  symlinkSync("etc/hostname", join(root, "short"));
  symlinkSync(`/${"x".repeat(100)}`, join(root, "long"));
  for (let n = 0; n < 300; n++) {
    mkdirSync(join(root, "many"), { recursive: true });
    writeFileSync(join(root, "many", `a-file-with-a-longer-name-${n}`), "");
  }
  return root;
}

describe.skipIf(mke2fs === undefined)("ext file systems (skipped without e2fsprogs)", () => {
  test.each([
    ["ext2 with small blocks", ["-t", "ext2", "-b", "1024"]],
    ["ext3", ["-t", "ext3", "-b", "4096"]],
    ["ext4", ["-t", "ext4"]],
    ["ext4 without 64bit", ["-t", "ext4", "-O", "^64bit", "-b", "1024"]],
  ])("%s give back names, bytes and links", async (_name, options) => {
    const image = join(dir, "fs.img");
    rmSync(image, { force: true });
    await exec(mke2fs ?? "", ["-q", "-F", ...options, "-d", files(), image, "24M"]);
    const tree = await diskFormats.openTree(memory(readFileSync(image)));
    expect(tree.type).toMatch(/^ext/);
    expect(await names(tree)).toEqual(
      expect.arrayContaining(["d:etc", "f:sparse", "l:short", "l:long", "d:lost+found"]),
    );
    expect(await tree.list(["many"])).toHaveLength(300);
    expect((await bytesOf(tree.read(["etc", "deep", "er", "large"]))).equals(large)).toBe(true);
    const sparse = await bytesOf(tree.read(["sparse"]));
    expect(sparse).toHaveLength(3 * 1024 * 1024);
    expect(sparse.toString("latin1", 0, 5)).toBe("begin");
    expect(await tree.find(["etc", "hostname"])).toMatchObject({ kind: "f", size: 4, mode: 0o640 });
    expect(await tree.target(["short"])).toBe("etc/hostname");
    expect(await tree.target(["long"])).toBe(`/${"x".repeat(100)}`);
    await expect(tree.find(["etc", "nothing"])).rejects.toThrow("no such file in the backup: '/etc/nothing'");
    await expect(tree.list(["etc", "hostname"])).rejects.toThrow("not a directory");
    await expect(tree.list(["etc", "hostname", "x"])).rejects.toThrow("not a directory");
  });

  test("that are damaged are refused, never believed", async () => {
    const image = join(dir, "damaged.img");
    await exec(mke2fs ?? "", ["-q", "-F", "-t", "ext4", "-d", files(), image, "24M"]);
    const good = readFileSync(image);
    const read = async (bytes: Buffer): Promise<void> => {
      const tree = await diskFormats.openTree(memory(bytes));
      const walk = async (path: string[]): Promise<void> => {
        for (const file of await tree.list(path)) {
          if (path.length < 5 && file.kind === "d") await walk([...path, file.name]);
          if (file.kind !== "f") continue;
          let left = 8 * 1024 * 1024;
          for await (const part of tree.read([...path, file.name])) if ((left -= part.length) <= 0) break;
        }
      };
      await walk([]);
    };
    const at = (offset: number, value: number): Buffer => {
      const bytes = Buffer.from(good);
      bytes.writeUInt32LE(value, 1024 + offset);
      return bytes;
    };
    await expect(read(at(0x60, 0x1_0000))).rejects.toThrow("features 0x10000");
    await expect(read(at(0x18, 99))).rejects.toThrow("its block size");
    await expect(read(at(0x28, 0))).rejects.toThrow("its inodes");
    await expect(read(at(0, 1))).rejects.toThrow("inode 2 is not there");
    await expect(read(at(0xfc, 0xffff_0000))).rejects.toThrow("group descriptors");
    await expect(read(good.subarray(0, 4096))).rejects.toThrow("beyond its end");
    // Whatever is changed: it ends, and with a text of ours.
    for (let round = 0; round < 12; round++) {
      const bytes = Buffer.from(good);
      for (let n = 0; n < 40; n++) {
        const where = 1024 + ((round * 7919 + n * 104_729) % 400_000);
        bytes[where] = (round * 31 + n * 17) & 0xff;
      }
      await read(bytes).catch((err: Error) => expect(err.name, err.message).toBe("AppError"));
    }
  });

  test("have no names that lead out of their directory", async () => {
    const image = join(dir, "names.img");
    await exec(mke2fs ?? "", ["-q", "-F", "-t", "ext4", "-d", files(), image, "24M"]);
    const bytes = readFileSync(image);
    const entry = bytes.indexOf(Buffer.from("\u0008\u0001hostname"));
    bytes.write("../../xx", entry + 2);
    const tree = await diskFormats.openTree(memory(bytes));
    expect(await names(tree, "etc")).toEqual(["d:deep"]);
  });
});

test("extents of an ext4 file that lead in a circle, or nowhere, are refused", async () => {
  const node = (entries: number, depth: number): Buffer => {
    const bytes = Buffer.alloc(4096);
    bytes.writeUInt16LE(0xf30a, 0);
    bytes.writeUInt16LE(entries, 2);
    bytes.writeUInt16LE(depth, 6);
    return bytes;
  };
  const inode = (block: Buffer): ExtInode => ({
    mode: 0x41ed,
    size: 8192,
    mtime: 0,
    uid: 0,
    gid: 0,
    flags: 0x80000,
    block: block.subarray(0, 60),
  });
  const runs = async (block: Buffer, disk: Buffer): Promise<void> => {
    for await (const _ of runsOf(memory(disk), 4096, inode(block)));
  };
  // The root leads to block 0, all entries of that to block 1, which has none.
  const wide = node(340, 1);
  for (let index = 0; index < 340; index++) wide.writeUInt32LE(1, 12 + index * 12 + 4);
  const disk = Buffer.concat([wide, node(0, 0)]);
  await expect(runs(node(4, 2), disk)).rejects.toThrow("lead into each other");
  await expect(runs(node(4, 2), node(340, 1))).rejects.toThrow("lead into each other");
  await expect(runs(node(1, 0), disk)).rejects.toThrow("an extent is empty");
});

test("block tables of an ext2 file that lead into each other are refused, and not followed for years", async () => {
  // Table 1 leads to table 2 a thousand times, that to table 3, which is empty: a billion tables, not one byte.
  const table = (next: number): Buffer => {
    const bytes = Buffer.alloc(4096);
    for (let at = 0; at < 4096; at += 4) bytes.writeUInt32LE(next, at);
    return bytes;
  };
  const block = Buffer.alloc(60);
  block.writeUInt32LE(1, 14 * 4);
  const disk = Buffer.concat([Buffer.alloc(4096), table(2), table(3), Buffer.alloc(4096)]);
  const inode: ExtInode = { mode: 0x81a4, size: 2 ** 42, mtime: 0, uid: 0, gid: 0, flags: 0, block };
  const all = async (): Promise<void> => {
    for await (const _ of runsOf(memory(disk), 4096, inode));
  };
  await expect(all()).rejects.toThrow("lead into each other");
});

test("a FAT directory of nothing but parts of one long name is refused", async () => {
  const image = fat(12);
  const at = (32 + Math.ceil((102 * 12) / 8 / 512)) * 512;
  for (let entry = 0; entry < 16; entry++) image.fill(0x41, at + entry * 32, at + entry * 32 + 32);
  for (let entry = 0; entry < 16; entry++) image.writeUInt8(0x0f, at + entry * 32 + 11);
  image.writeUInt16LE(32, 17); // the root goes on into what follows
  image.copy(image, at + 512, at, at + 512);
  await expect((await diskFormats.openTree(memory(image))).list([])).rejects.toThrow("a name is too long");
});

/** FAT16 with one long name, one short one in a directory, and a file of two clusters. */
function fat(bits: 12 | 16 | 32): Buffer {
  const clusters = { 12: 100, 16: 5000, 32: 66_000 }[bits];
  const fatSectors = Math.ceil(((clusters + 2) * bits) / 8 / 512);
  const rootSectors = bits === 32 ? 0 : 1;
  const dataSector = 32 + fatSectors + rootSectors;
  const total = dataSector + clusters;
  const image = Buffer.alloc(total * 512);
  image.set([0xeb, 0x3c, 0x90], 0);
  image.writeUInt16LE(512, 11);
  image.writeUInt8(1, 13);
  image.writeUInt16LE(32, 14);
  image.writeUInt8(1, 16);
  image.writeUInt16LE(rootSectors * 16, 17);
  if (bits === 12) image.writeUInt16LE(total, 19);
  else image.writeUInt32LE(total, 32);
  if (bits === 32) image.writeUInt32LE(fatSectors, 36);
  else image.writeUInt16LE(fatSectors, 22);
  image.writeUInt32LE(bits === 32 ? 6 : 0, 44);
  image.writeUInt16LE(0xaa55, 510);
  const link = (cluster: number, next: number): void => {
    const at = 32 * 512 + Math.floor((cluster * bits) / 8);
    if (bits === 32) image.writeUInt32LE(next === -1 ? 0x0fff_ffff : next, at);
    else if (bits === 16) image.writeUInt16LE(next === -1 ? 0xffff : next, at);
    else {
      const value = next === -1 ? 0xfff : next;
      const old = image.readUInt16LE(at);
      image.writeUInt16LE(cluster % 2 === 0 ? (old & 0xf000) | value : (old & 0x000f) | (value << 4), at);
    }
  };
  const data = (cluster: number): number => (dataSector + cluster - 2) * 512;
  const entry = (name: string, attributes: number, cluster: number, size: number): Buffer => {
    const bytes = Buffer.alloc(32, 0);
    bytes.write(name.padEnd(11), 0, "latin1");
    bytes.writeUInt8(attributes, 11);
    bytes.writeUInt16LE((5 << 11) | (4 << 5) | 3, 22);
    bytes.writeUInt16LE((46 << 9) | (2 << 5) | 1, 24);
    bytes.writeUInt16LE(cluster, 26);
    bytes.writeUInt32LE(size, 28);
    return bytes;
  };
  const long = (order: number, text: string): Buffer => {
    const bytes = Buffer.alloc(32, 0xff);
    const raw = Buffer.alloc(26, 0xff);
    raw.write(`${text}${text.length < 13 ? "\0" : ""}`, 0, "utf16le");
    bytes.writeUInt8(order, 0);
    raw.copy(bytes, 1, 0, 10);
    bytes.writeUInt8(0x0f, 11);
    bytes.writeUInt8(0, 12);
    raw.copy(bytes, 14, 10, 22);
    raw.copy(bytes, 28, 22, 26);
    return bytes;
  };
  const lower = entry("LOWER   TXT", 0x20, 0, 0);
  lower.writeUInt8(0x18, 12);
  const root = Buffer.concat([
    entry("A LABEL", 0x08, 0, 0),
    entry("\u00e5GONE   TXT", 0x20, 0, 0),
    long(0x42, "name.txt"),
    long(0x01, "a rather long"),
    entry("ARATHE~1TXT", 0x20, 3, 700),
    entry("DIR", 0x10, 5, 0),
    lower,
  ]);
  root.copy(image, bits === 32 ? data(6) : (32 + fatSectors) * 512);
  if (bits === 32) link(6, -1);
  link(3, 4);
  link(4, -1);
  link(5, -1);
  image.fill(0x61, data(3), data(3) + 512);
  image.fill(0x62, data(4), data(4) + 188);
  Buffer.concat([entry(".", 0x10, 5, 0), entry("..", 0x10, 0, 0), entry("FILE    BIN", 0x20, 0, 0)]).copy(
    image,
    data(5),
  );
  return image;
}

test.each([12, 16, 32] as const)("FAT%i gives back long and short names and bytes", async (bits) => {
  const image = fat(bits);
  const tree = await diskFormats.openTree(memory(image));
  expect(tree.type).toBe("vfat");
  expect(await names(tree)).toEqual(["d:DIR", "f:a rather longname.txt", "f:lower.txt"]);
  expect(await names(tree, "dir")).toEqual(["f:FILE.BIN"]);
  const body = await bytesOf(tree.read(["a rather longname.txt"]));
  expect(body.toString()).toBe("a".repeat(512) + "b".repeat(188));
  expect((await tree.find(["lower.txt"])).mtime).toBe(Date.UTC(2026, 1, 1, 5, 4, 6) / 1000);
  await expect(tree.find(["nothing"])).rejects.toThrow("no such file");
  await expect(tree.list(["lower.txt"])).rejects.toThrow("not a directory");
  await expect(tree.target(["lower.txt"])).rejects.toThrow("no such file");
  // Its second cluster is nowhere.
  const at = 32 * 512 + Math.floor((3 * bits) / 8);
  const broken = Buffer.from(image);
  broken.fill(0, at, at + 2);
  const bad = await diskFormats.openTree(memory(broken));
  await expect(bytesOf(bad.read(["a rather longname.txt"]))).rejects.toThrow("damaged");
  expect(await diskFormats.partitions(memory(image))).toBeUndefined();
});

describe("partition tables", () => {
  const mbr = (
    disk: Buffer,
    sector: number,
    rows: [type: number, start: number, sectors: number][],
  ): void => {
    disk.writeUInt16LE(0xaa55, sector * 512 + 510);
    for (const [index, [type, start, sectors]] of rows.entries()) {
      const at = sector * 512 + 446 + index * 16;
      disk.writeUInt8(type, at + 4);
      disk.writeUInt32LE(start, at + 8);
      disk.writeUInt32LE(sectors, at + 12);
    }
  };
  const parts = async (disk: Buffer): Promise<unknown> => diskFormats.partitions(memory(disk));

  test("of DOS, with logical partitions, also in a circle", async () => {
    const disk = Buffer.alloc(1000 * 512);
    mbr(disk, 0, [
      [0x83, 10, 50],
      [0x05, 100, 800],
      [0x83, 990, 500],
    ]);
    mbr(disk, 100, [
      [0x83, 5, 20],
      [0x05, 200, 100],
    ]);
    mbr(disk, 300, [
      [0x83, 5, 30],
      [0x05, 0, 100],
    ]);
    expect(await parts(disk)).toEqual([
      { number: 1, offset: 5120, size: 25_600 },
      { number: 5, offset: 105 * 512, size: 10_240 },
      { number: 6, offset: 305 * 512, size: 15_360 },
    ]);
    expect(await parts(Buffer.alloc(4096))).toBeUndefined();
    expect(await parts(Buffer.alloc(100))).toBeUndefined();
    const none = Buffer.alloc(4096);
    mbr(none, 0, []);
    expect(await parts(none)).toBeUndefined();
  });

  test("of GPT, and one that says too much", async () => {
    const disk = Buffer.alloc(200 * 512);
    mbr(disk, 0, [[0xee, 1, 199]]);
    disk.write("EFI PART", 512, "latin1");
    disk.writeBigUInt64LE(2n, 512 + 72);
    disk.writeUInt32LE(4, 512 + 80);
    disk.writeUInt32LE(128, 512 + 84);
    const entry = (index: number, first: bigint, last: bigint): void => {
      disk.fill(1, 1024 + index * 128, 1024 + index * 128 + 16);
      disk.writeBigUInt64LE(first, 1024 + index * 128 + 32);
      disk.writeBigUInt64LE(last, 1024 + index * 128 + 40);
    };
    entry(0, 34n, 99n);
    entry(2, 100n, 150n);
    entry(3, 160n, 5000n);
    expect(await parts(disk)).toEqual([
      { number: 1, offset: 34 * 512, size: 66 * 512 },
      { number: 3, offset: 100 * 512, size: 51 * 512 },
    ]);
    disk.writeUInt32LE(7, 512 + 84);
    expect(await parts(disk)).toBeUndefined();
    disk.write("NOT PART", 512, "latin1");
    expect(await parts(disk)).toBeUndefined();
  });

  test("of nothing that is known are named where they can be", async () => {
    const xfs = Buffer.alloc(100_000);
    xfs.write("XFSB", 0, "latin1");
    await expect(diskFormats.openTree(memory(xfs))).rejects.toThrow("it is xfs (ext2, ext3, ext4 and FAT");
    await expect(diskFormats.openTree(memory(Buffer.alloc(100)))).rejects.toThrow("not known what it is");
  });
});

describe("unpacked disks", () => {
  test("are filled once, read at any place, and gone in the end", async () => {
    const folder = join(dir, "spool");
    const spool = new FileSpool({ folder, clock: systemClock });
    let filled = 0;
    const open = (): Promise<RandomAccess> =>
      spool.open("a", 1024 * 1024, async (write) => {
        filled++;
        await write(4096, Buffer.from("hello"));
      });
    const [one, two] = await Promise.all([open(), open()]);
    expect(filled).toBe(1);
    expect(Buffer.from(await one.read(4096, 5)).toString()).toBe("hello");
    expect(await two.read(2 ** 40, 5)).toHaveLength(0);
    expect(await one.read(1024 * 1024 - 2, 5)).toHaveLength(2);
    await open();
    await expect(
      spool.open("b", 10, async () => {
        throw new RangeError("cut");
      }),
    ).rejects.toThrow("cut");
    await spool.close();
    expect(existsSync(folder)).toBe(false);
  });

  test("that take long are asked for again", async () => {
    const clock = new FakeClock();
    const spool = new FileSpool({ folder: join(dir, "slow"), clock });
    const gate = Promise.withResolvers<void>();
    const fill = (): Promise<void> => gate.promise;
    const first = spool.open("a", 1024, fill);
    first.catch(() => undefined);
    await clock.advance(30_000);
    await expect(first).rejects.toMatchObject({ pveStatus: 503 });
    const second = spool.open("a", 1024, fill);
    gate.resolve();
    expect((await second).size).toBe(1024);
    await clock.advance(11 * 60_000);
    await spool.close();
  });
});
