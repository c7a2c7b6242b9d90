// An OVA is a tar archive. Before it is kept, its table of contents is read: plain files with plain names only.
import { open } from "node:fs/promises";
import { SAFE_NAME } from "@gpve/domain/storage/content.ts";
import { storageMissing, storageRefused } from "@gpve/domain/storage/failures.ts";
import type { ImageSource } from "@gpve/domain/storage/plugin.ts";

export interface OvaMember {
  readonly name: string;
  readonly size: number;
  /** Where its bytes begin in the archive. */
  readonly offset: number;
}

const BLOCK = 512;
const MAX_MEMBERS = 1_000;

export async function inspectOva(path: string): Promise<OvaMember[]> {
  const handle = await open(path, "r");
  try {
    const { size: total } = await handle.stat();
    const members: OvaMember[] = [];
    const block = Buffer.alloc(BLOCK);
    let at = 0;
    while (at + BLOCK <= total) {
      await handle.read(block, 0, BLOCK, at);
      if (block.every((byte) => byte === 0)) break;
      const member = parseTarHeader(block, at + BLOCK);
      if (member.offset + member.size > total) throw storageRefused("the OVA is cut off");
      members.push(member);
      if (members.length > MAX_MEMBERS) throw storageRefused("the OVA has too many files");
      at = member.offset + Math.ceil(member.size / BLOCK) * BLOCK;
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
  return { path, format, trusted: false, region: { offset: member.offset, size: member.size } };
}

/** One header block of a ustar archive; refuses everything but plain files with harmless names. */
export function parseTarHeader(block: Uint8Array, offset: number): OvaMember {
  const bytes = Buffer.from(block.buffer, block.byteOffset, BLOCK);
  if (bytes.toString("latin1", 257, 262) !== "ustar")
    throw storageRefused("the file is no OVA: not a tar archive");
  let sum = 0;
  for (let at = 0; at < BLOCK; at++) sum += at >= 148 && at < 156 ? 0x20 : (bytes[at] ?? 0);
  if (octal(bytes, 148, 8) !== sum) throw storageRefused("the OVA is broken: wrong checksum in its table");
  const name = text(bytes, 0, 100);
  const prefix = text(bytes, 345, 155);
  const type = String.fromCharCode(bytes[156] ?? 0);
  if (type !== "0" && type !== "\0")
    throw storageRefused(`the OVA holds something that is no plain file: '${name}'`);
  if (prefix !== "" || !SAFE_NAME.test(name.replaceAll(" ", "_")) || name.startsWith(".")) {
    throw storageRefused(`the OVA holds a file with a forbidden name: '${name}'`);
  }
  return { name, size: sizeOf(bytes), offset };
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
