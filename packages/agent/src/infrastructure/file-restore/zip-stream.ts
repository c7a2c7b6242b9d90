import { crc32 } from "node:zlib";
import type { FileKind, PackedEntry } from "@gpve/domain/backup/file-tree.ts";

const VERSION = 45;
/** Sizes follow the data; names are UTF-8. */
const FLAGS = 0x0808;
const TYPES: Readonly<Partial<Record<FileKind, number>>> = { f: 0x8000, l: 0xa000, d: 0x4000 };
const MAX32 = 0xffff_ffff;

interface Written {
  readonly name: Buffer;
  readonly time: number;
  readonly attributes: number;
  readonly crc: number;
  readonly size: number;
  readonly offset: number;
}

/** Everything as ZIP64 and stored, so that nothing has to be known before it is read. Devices are left out. */
export async function* zipOf(files: AsyncIterable<PackedEntry>): AsyncGenerator<Uint8Array> {
  const written: Written[] = [];
  let offset = 0;
  const count = (bytes: Uint8Array): Uint8Array => {
    offset += bytes.length;
    return bytes;
  };
  for await (const { path, file, target, body } of files) {
    const type = TYPES[file.kind];
    if (type === undefined) continue;
    const name = Buffer.from(file.kind === "d" ? `${path}/` : path);
    const start = offset;
    const time = dosTime(file.mtime);
    yield count(localHeader(name, time));
    let crc = 0;
    let size = 0;
    for await (const bytes of contentOf(file.kind, target, body)) {
      crc = crc32(bytes, crc);
      size += bytes.length;
      yield count(bytes);
    }
    yield count(descriptor(crc, size));
    const attributes = ((type | file.mode) * 65_536 + (file.kind === "d" ? 0x10 : 0)) >>> 0;
    written.push({ name, time, attributes, crc, size, offset: start });
  }
  const directoryAt = offset;
  for (const entry of written) yield count(centralHeader(entry));
  yield ending(written.length, directoryAt, offset - directoryAt);
}

async function* contentOf(
  kind: FileKind,
  target: string | undefined,
  body: AsyncIterable<Uint8Array> | undefined,
): AsyncGenerator<Uint8Array> {
  if (kind === "l") yield Buffer.from(target ?? "");
  else if (kind === "f" && body !== undefined) yield* body;
}

function localHeader(name: Buffer, time: number): Buffer {
  const head = Buffer.alloc(30);
  head.writeUInt32LE(0x04034b50, 0);
  head.writeUInt16LE(VERSION, 4);
  head.writeUInt16LE(FLAGS, 6);
  head.writeUInt32LE(time, 10);
  head.writeUInt32LE(MAX32, 18);
  head.writeUInt32LE(MAX32, 22);
  head.writeUInt16LE(name.length, 26);
  head.writeUInt16LE(20, 28);
  return Buffer.concat([head, name, zip64(0, 0)]);
}

function zip64(...values: number[]): Buffer {
  const extra = Buffer.alloc(4 + values.length * 8);
  extra.writeUInt16LE(1, 0);
  extra.writeUInt16LE(values.length * 8, 2);
  for (const [index, value] of values.entries()) extra.writeBigUInt64LE(BigInt(value), 4 + index * 8);
  return extra;
}

function descriptor(crc: number, size: number): Buffer {
  const bytes = Buffer.alloc(24);
  bytes.writeUInt32LE(0x08074b50, 0);
  bytes.writeUInt32LE(crc, 4);
  bytes.writeBigUInt64LE(BigInt(size), 8);
  bytes.writeBigUInt64LE(BigInt(size), 16);
  return bytes;
}

function centralHeader({ name, time, attributes, crc, size, offset }: Written): Buffer {
  const head = Buffer.alloc(46);
  head.writeUInt32LE(0x02014b50, 0);
  // Made on Unix: the upper half of the attributes is a mode.
  head.writeUInt16LE((3 << 8) | VERSION, 4);
  head.writeUInt16LE(VERSION, 6);
  head.writeUInt16LE(FLAGS, 8);
  head.writeUInt32LE(time, 12);
  head.writeUInt32LE(crc, 16);
  head.writeUInt32LE(MAX32, 20);
  head.writeUInt32LE(MAX32, 24);
  head.writeUInt16LE(name.length, 28);
  head.writeUInt16LE(28, 30);
  head.writeUInt32LE(attributes, 38);
  head.writeUInt32LE(MAX32, 42);
  return Buffer.concat([head, name, zip64(size, size, offset)]);
}

function ending(entries: number, at: number, bytes: number): Buffer {
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06064b50, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeUInt16LE(VERSION, 12);
  record.writeUInt16LE(VERSION, 14);
  record.writeBigUInt64LE(BigInt(entries), 24);
  record.writeBigUInt64LE(BigInt(entries), 32);
  record.writeBigUInt64LE(BigInt(bytes), 40);
  record.writeBigUInt64LE(BigInt(at), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(at + bytes), 8);
  locator.writeUInt32LE(1, 16);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(0xffff, 8);
  end.writeUInt16LE(0xffff, 10);
  end.writeUInt32LE(MAX32, 12);
  end.writeUInt32LE(MAX32, 16);
  return Buffer.concat([record, locator, end]);
}

function dosTime(seconds: number): number {
  const date = new Date(Math.max(seconds, Date.UTC(1980, 0, 1) / 1000) * 1000);
  const day = ((date.getUTCFullYear() - 1980) << 9) | ((date.getUTCMonth() + 1) << 5) | date.getUTCDate();
  const time = (date.getUTCHours() << 11) | (date.getUTCMinutes() << 5) | (date.getUTCSeconds() >> 1);
  return (((day & 0xffff) << 16) | time) >>> 0;
}
