// An OVA is a tar archive. Before it is kept, its table of contents is read: plain files with plain names only.
import type { FileHandle } from "node:fs/promises";
import { SAFE_NAME } from "@gpve/domain/storage/content.ts";
import { storageMissing, storageRefused } from "@gpve/domain/storage/failures.ts";
import { fileNode } from "@gpve/domain/storage/block-node.ts";
import type { ImageSource } from "@gpve/domain/storage/plugin.ts";
import { openPlainFile } from "@gpve/kit/held-file.ts";

export interface OvaMember {
  readonly name: string;
  readonly size: number;
  /** Where its bytes begin in the archive. */
  readonly offset: number;
}

interface Extra {
  readonly size?: number;
}

const BLOCK = 512;
const MAX_MEMBERS = 1_000;
const MAX_EXTRA = 64 * 1024;

export async function inspectOva(path: string): Promise<OvaMember[]> {
  const handle = await openPlainFile(path);
  try {
    const { size: total } = await handle.stat();
    const members: OvaMember[] = [];
    const block = Buffer.alloc(BLOCK);
    let at = 0;
    let headers = 0;
    let said: Extra | undefined;
    while (at + BLOCK <= total) {
      await handle.read(block, 0, BLOCK, at);
      if (block.every((byte) => byte === 0)) break;
      if (++headers > MAX_MEMBERS) throw storageRefused("the OVA has too many files");
      const offset = at + BLOCK;
      const extra = parseExtra(block);
      const member = extra === undefined ? parseTarHeader(block, offset, said?.size) : undefined;
      const size = member?.size ?? extra?.size ?? 0;
      if (offset + size > total) throw storageRefused("the OVA is cut off");
      if (member !== undefined) members.push(member);
      // Tar programs differ in what two of them mean.
      else if (said !== undefined) throw storageRefused("the OVA has two headers for one file");
      said = extra === undefined ? undefined : await readExtra(handle, offset, extra);
      at = offset + Math.ceil(size / BLOCK) * BLOCK;
    }
    if (!members.some(({ name }) => /\.ovf$/i.test(name))) {
      throw storageRefused("the OVA holds no OVF description");
    }
    return members;
  } finally {
    await handle.close();
  }
}

/** A disk inside an OVA ("x.ova/disk.vmdk") as an image that is a part of the archive's file. */
export async function ovaMember(path: string, name: string): Promise<ImageSource> {
  const wanted = name.slice(name.indexOf("/") + 1);
  const member = (await inspectOva(path)).find((each) => each.name === wanted);
  if (member === undefined) throw storageMissing(`the OVA holds no file '${wanted}'`);
  const format = wanted.slice(wanted.lastIndexOf(".") + 1).toLowerCase() as ImageSource["format"];
  return {
    node: fileNode(path),
    format,
    fromOutside: true,
    region: { offset: member.offset, size: member.size },
  };
}

/** A header about the files that follow, as tar programs write for exact times or large files. */
function parseExtra(block: Uint8Array): { readonly size: number; readonly isGlobal: boolean } | undefined {
  const bytes = checkedHeader(block);
  const type = String.fromCharCode(bytes[156] ?? 0);
  return type === "x" || type === "g" ? { size: sizeOf(bytes), isGlobal: type === "g" } : undefined;
}

/** The size it gives the next file. Times and owners do not matter here; another name or kind is refused. */
async function readExtra(
  handle: FileHandle,
  offset: number,
  { size: length, isGlobal }: { readonly size: number; readonly isGlobal: boolean },
): Promise<Extra | undefined> {
  if (length > MAX_EXTRA) throw storageRefused("the OVA has a header of absurd size");
  const bytes = Buffer.alloc(length);
  await handle.read(bytes, 0, length, offset);
  const text = bytes.toString("utf8");
  const changed = /^\d+ (path|linkpath|GNU\.sparse[^=]*|SCHILY\.(?:realsize|filetype))=/m.exec(text)?.[1];
  if (changed !== undefined)
    throw storageRefused(`the OVA has a header that changes the ${changed} of a file`);
  const size = /^\d+ size=(\d+)$/m.exec(text)?.[1];
  if (isGlobal && size !== undefined)
    throw storageRefused("the OVA has a header that changes the size of all files");
  if (size === undefined) return isGlobal ? undefined : {};
  if (!Number.isSafeInteger(Number(size))) throw storageRefused("the OVA holds a file of absurd size");
  return { size: Number(size) };
}

/** One header block of a ustar archive; refuses everything but plain files with harmless names. */
export function parseTarHeader(block: Uint8Array, offset: number, size?: number): OvaMember {
  const bytes = checkedHeader(block);
  const name = text(bytes, 0, 100);
  const prefix = text(bytes, 345, 155);
  const type = String.fromCharCode(bytes[156] ?? 0);
  if (type !== "0" && type !== "\0")
    throw storageRefused(`the OVA holds something that is no plain file: '${name}'`);
  if (prefix !== "" || !SAFE_NAME.test(name.replaceAll(" ", "_")) || name.startsWith(".")) {
    throw storageRefused(`the OVA holds a file with a forbidden name: '${name}'`);
  }
  return { name, size: size ?? sizeOf(bytes), offset };
}

function checkedHeader(block: Uint8Array): Buffer {
  const bytes = Buffer.from(block.buffer, block.byteOffset, BLOCK);
  if (bytes.toString("latin1", 257, 262) !== "ustar")
    throw storageRefused("the file is no OVA: not a tar archive");
  let sum = 0;
  for (let at = 0; at < BLOCK; at++) sum += at >= 148 && at < 156 ? 0x20 : (bytes[at] ?? 0);
  if (octal(bytes, 148, 8) !== sum) throw storageRefused("the OVA is broken: wrong checksum in its table");
  return bytes;
}

/** Octal digits, or, above 8 GiB, a binary number marked by its first bit. */
function sizeOf(bytes: Buffer): number {
  if (((bytes[124] ?? 0) & 0x80) === 0) return octal(bytes, 124, 12);
  const size = bytes.readBigUInt64BE(128);
  if (size > BigInt(Number.MAX_SAFE_INTEGER)) throw storageRefused("the OVA holds a file of absurd size");
  return Number(size);
}

function octal(bytes: Buffer, at: number, length: number): number {
  const digits = text(bytes, at, length).trim();
  if (!/^[0-7]+$/.test(digits)) throw storageRefused("the OVA is broken: a number in its table is none");
  return Number.parseInt(digits, 8);
}

function text(bytes: Buffer, at: number, length: number): string {
  const end = bytes.indexOf(0, at);
  return bytes.toString("utf8", at, end < 0 || end > at + length ? at + length : end);
}
