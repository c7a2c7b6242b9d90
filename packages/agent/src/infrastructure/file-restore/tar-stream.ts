import type { FileKind, PackedEntry } from "@gpve/domain/backup/file-tree.ts";

const BLOCK = 512;
const MAX_OCTAL_SIZE = 8 * 1024 ** 3;
const TYPES: Readonly<Partial<Record<FileKind, string>>> = { f: "0", l: "2", d: "5" };

/** ustar, with pax headers for what does not fit. Devices and sockets are left out. */
export async function* tarOf(files: AsyncIterable<PackedEntry>): AsyncGenerator<Uint8Array> {
  for await (const { path, file, target = "", body } of files) {
    const type = TYPES[file.kind];
    if (type === undefined) continue;
    const name = file.kind === "d" ? `${path}/` : path;
    const size = file.kind === "f" ? file.size : 0;
    const extended = paxOf(name, target, size);
    if (extended.length > 0) {
      yield header({ name: "pax", type: "x", size: extended.length, mode: 0o644, uid: 0, gid: 0, mtime: 0 });
      yield padded(extended);
    }
    const { mode, uid, gid, mtime } = file;
    yield header({ name, type, size, target, mode, uid, gid, mtime });
    if (size > 0 && body !== undefined) {
      yield* body;
      if (size % BLOCK !== 0) yield Buffer.alloc(BLOCK - (size % BLOCK));
    }
  }
  yield Buffer.alloc(2 * BLOCK);
}

function paxOf(name: string, target: string, size: number): Buffer {
  const records: string[] = [];
  if (!fits(name)) records.push(record("path", name));
  if (!fits(target)) records.push(record("linkpath", target));
  if (size >= MAX_OCTAL_SIZE) records.push(record("size", String(size)));
  return Buffer.from(records.join(""));
}

function fits(text: string): boolean {
  return /^[\x20-\x7e]{0,100}$/.test(text);
}

/** "LENGTH key=value\n", where LENGTH counts itself. */
function record(key: string, value: string): string {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + String(rest).length;
  length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}

function header(entry: {
  readonly name: string;
  readonly type: string;
  readonly size: number;
  readonly target?: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtime: number;
}): Buffer {
  const block = Buffer.alloc(BLOCK);
  const text = (value: string, at: number, length: number): void => {
    Buffer.from(value).subarray(0, length).copy(block, at);
  };
  const octal = (value: number, at: number, length: number): void =>
    text(
      `${Math.min(value, 8 ** (length - 1) - 1)
        .toString(8)
        .padStart(length - 1, "0")}\0`,
      at,
      length,
    );
  text(entry.name, 0, 100);
  octal(entry.mode, 100, 8);
  octal(entry.uid, 108, 8);
  octal(entry.gid, 116, 8);
  octal(entry.size, 124, 12);
  octal(entry.mtime, 136, 12);
  text("        ", 148, 8);
  text(entry.type, 156, 1);
  text(entry.target ?? "", 157, 100);
  text("ustar\x0000", 257, 8);
  const sum = block.reduce((total, byte) => total + byte, 0);
  text(`${sum.toString(8).padStart(6, "0")}\0 `, 148, 8);
  return block;
}

function padded(bytes: Buffer): Buffer {
  const whole = Buffer.alloc(Math.ceil(bytes.length / BLOCK) * BLOCK);
  bytes.copy(whole);
  return whole;
}
