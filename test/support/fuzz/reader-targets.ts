// The readers of bytes that come from guests, image authors and backup servers, each as one function of one input.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { VmaReader } from "@gpve/agent/infrastructure/backup/vma/vma-reader.ts";
import { diskFormats } from "@gpve/agent/infrastructure/file-restore/disk-formats.ts";
import { LineFraming } from "@gpve/agent/infrastructure/qmp/line-framing.ts";
import { readQmpMessage } from "@gpve/agent/infrastructure/qmp/qmp-messages.ts";
import { parseQcow2Header } from "@gpve/agent/infrastructure/image-tools/qcow2-header.ts";
import { judgeVmdk } from "@gpve/agent/infrastructure/image-tools/vmdk-descriptor.ts";
import type { FileTree, RandomAccess } from "@gpve/domain/backup/file-tree.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import { parseOvf } from "@gpve/domain/storage/ovf.ts";
import type { MutateOptions } from "./mutate.ts";

export interface ReaderTarget extends MutateOptions {
  /** Ends in a result, an AppError, or what `isOwnError` knows. */
  read(input: Buffer): Promise<void> | void;
  readonly isOwnError?: (err: unknown) => boolean;
  /** Makes checksums right again, or nothing behind them would ever be reached. */
  readonly mend?: (input: Buffer) => Buffer;
}

const CORPUS = join(import.meta.dirname, "corpus");
const words = (...texts: string[]): Buffer[] => texts.map((text) => Buffer.from(text, "latin1"));

export const readerTargets: Readonly<Record<string, ReaderTarget>> = {
  vma: {
    maxBytes: 256 * 1024,
    words: words("VMA\0", "VMAE", "drive-scsi0\0", "vmstate\0", "qemu-server.conf\0"),
    read: readVma,
    mend: mendVma,
  },
  ovf: {
    maxBytes: 1024 * 1024,
    words: words(
      '<Item xmlns="x">',
      "</Item>",
      "<!--",
      "-->",
      "<![CDATA[",
      "]]>",
      "<!DOCTYPE a [",
      "&amp;",
      "&#x110000;",
      "ovf:/disk/vmdisk1",
      "<rasd:ResourceType>17</rasd:ResourceType>",
      '="',
      "byte * 2^99",
    ),
    read: (input) => void parseOvf(new TextDecoder().decode(input)),
  },
  ext: { maxBytes: 256 * 1024, words: words("\x0a\xf3", "\x53\xef", "\x55\xaa", "EFI PART"), read: readDisk },
  fat: { maxBytes: 256 * 1024, words: words("\x55\xaa", "\xeb\x3c\x90", "\x0f", "\xe5"), read: readDisk },
  qcow2: {
    maxBytes: 64 * 1024,
    words: words("QFI\xfb", "\xe2\x79\x2a\xca", "DATA", "qcow2", "/etc/shadow"),
    read: (input) => void parseQcow2Header(input),
    isOwnError: (err) =>
      err instanceof RangeError && !/call stack|offset is outside|Invalid/i.test(err.message),
  },
  vmdk: {
    maxBytes: 1024 * 1024,
    words: words("KDMV", 'createType="monolithicSparse"', "RW 1 SPARSE ", "parentFileNameHint="),
    read: (input) => {
      const verdict = judgeVmdk(input);
      if (!verdict.ok) throw storageRefused(verdict.why);
    },
  },
  qmp: {
    maxBytes: 256 * 1024,
    words: words(
      '"return":',
      '"error":',
      '"event":',
      '"id":',
      '"timestamp":',
      '{"toString":1,"valueOf":1}',
      '"__proto__":',
      "[[[[[[[[",
      "null",
      "1e999",
      "\r\n",
    ),
    read: readQmp,
  },
};

/** Readers as they must not be; they show that the driver sees it. */
export const brokenReaders: Readonly<Record<string, ReaderTarget>> = {
  "broken-throws": { maxBytes: 1024, words: [], read: (input) => void (input[0] === 0x51 ? missing() : 0) },
  "broken-memory": {
    maxBytes: 1024,
    words: [],
    read: (input) => void kept.push(Buffer.alloc(2 ** 28 + input.length)),
  },
  "broken-slow": {
    maxBytes: 1024,
    words: [],
    read: () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4_000),
  },
};
const kept: Buffer[] = [];
function missing(): never {
  return (undefined as unknown as { call(): never }).call();
}

export function readCorpus(reader: string): Buffer[] {
  if (Object.hasOwn(brokenReaders, reader)) return readCorpus("qcow2");
  const folder = join(CORPUS, reader);
  return readdirSync(folder)
    .toSorted()
    .map((name) => readFileSync(join(folder, name)));
}

async function readVma(input: Buffer): Promise<void> {
  const source = async function* (): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < input.length; at += 65_536) yield input.subarray(at, at + 65_536);
  };
  const reader = await VmaReader.open(source());
  for await (const { data } of reader.clusters()) if (data.length > 65_536) throw new Error("too long");
}

/** The header's checksum and those of the extents, where there are any. */
function mendVma(input: Buffer): Buffer {
  if (input.length < 60) return input;
  const size = input.readUInt32BE(56);
  if (size < 12_288 || size > input.length) return input;
  mendMd5(input.subarray(0, size), 32);
  for (let at = size; at + 512 <= input.length;) {
    if (input.toString("latin1", at, at + 4) !== "VMAE") break;
    const head = input.subarray(at, at + 512);
    mendMd5(head, 24);
    at += 512 + head.readUInt16BE(6) * 4096;
  }
  return input;
}

function mendMd5(bytes: Buffer, at: number): void {
  bytes.fill(0, at, at + 16);
  createHash("md5").update(bytes).digest().copy(bytes, at);
}

/** Whoever reads a file may stop; until then it must come in parts. */
const READ_AT_MOST = 1024 * 1024;
const FILES_AT_MOST = 20;

async function readDisk(input: Buffer): Promise<void> {
  const disk: RandomAccess = { size: input.length, read: async (at, length) => part(input, at, length) };
  await diskFormats.partitions(disk);
  const tree = await diskFormats.openTree(disk);
  const root = await tree.list([]);
  for (const { name, kind } of root.slice(0, FILES_AT_MOST)) {
    if (kind === "d") await tree.list([name]);
    else if (kind === "l") await tree.target([name]);
    else if (kind === "f") await readSome(tree, name);
  }
}

async function readSome(tree: FileTree, name: string): Promise<void> {
  let got = 0;
  for await (const bytes of tree.read([name])) {
    got += bytes.length;
    if (got > READ_AT_MOST) return;
  }
}

/** As the spool of unpacked disks answers. */
function part(input: Buffer, at: number, length: number): Uint8Array {
  if (!Number.isSafeInteger(at) || at < 0 || at >= input.length) return Buffer.alloc(0);
  return input.subarray(at, Math.min(at + length, input.length));
}

function readQmp(input: Buffer): void {
  const framing = new LineFraming(1024 * 1024);
  const step = 1 + (input[0] ?? 0) * 16;
  for (let at = 0; at < input.length; at += step)
    for (const line of framing.push(input.subarray(at, at + step))) readQmpMessage(line);
}
