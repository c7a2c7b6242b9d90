// The archive of an incremental backup. docs/reference/gpvi.md describes it byte by byte.
//
//   head (48 bytes)   magic, version, length and SHA-256 of the description
//   description       JSON: who it is, whose child it is, configuration files, devices
//   extent*           56-byte head, then the bytes unless they are zeroes
//   end (56 bytes)    how many extents there were, and the SHA-256 of all their heads
//
// Numbers are big-endian.
import { refused } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import type { IncrementalDevice, IncrementalHeader } from "@gpve/domain/backup/backup-ports.ts";

export const HEAD_BYTES = 48;
export const RECORD_BYTES = 56;
export const MAX_EXTENT_BYTES = 4 * 1024 * 1024;
export const VERSION = 1;

const MAGIC = Buffer.from("GPVI\r\n\u001a\n", "latin1");
const EXTENT_MAGIC = Buffer.from("GPVX", "latin1");
const END_MAGIC = Buffer.from("GPVE", "latin1");
const MAX_DESCRIPTION_BYTES = 16 * 1024 * 1024;
const FLAG_ZERO = 1;

export interface ExtentHead {
  readonly device: number;
  readonly offset: number;
  readonly length: number;
  readonly isZero: boolean;
  /** Of the data; of nothing when it is zeroes. */
  readonly sha256: Buffer;
}

export function broken(what: string): AppError {
  return refused(`the incremental backup is damaged: ${what}`);
}

export function sha256(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}

export function encodeHead(header: IncrementalHeader): Buffer {
  const description = Buffer.from(
    JSON.stringify({
      uuid: header.uuid,
      ctime: header.ctime,
      parent: header.parent,
      configs: [...header.configs].map(([name, content]) => ({
        name,
        base64: Buffer.from(content).toString("base64"),
      })),
      devices: header.devices.map(({ name, size, whole }) => ({ name, size, whole })),
    }),
  );
  const head = Buffer.alloc(HEAD_BYTES);
  MAGIC.copy(head, 0);
  head.writeUInt32BE(VERSION, 8);
  head.writeUInt32BE(description.length, 12);
  head.set(sha256(description), 16);
  return Buffer.concat([head, description]);
}

/** How long the description is, and what its checksum must be. */
export function decodeHead(head: Buffer): { readonly length: number; readonly checksum: Buffer } {
  if (!head.subarray(0, 8).equals(MAGIC)) throw broken("it does not begin like one");
  const version = head.readUInt32BE(8);
  if (version !== VERSION) {
    throw new AppError(
      "feature.unsupported",
      `the incremental backup has version ${version}; this version reads ${VERSION}`,
      { pveStatus: 500 },
    );
  }
  const length = head.readUInt32BE(12);
  if (length > MAX_DESCRIPTION_BYTES) throw broken(`its description says it is ${length} bytes long`);
  return { length, checksum: head.subarray(16, 48) };
}

export function decodeDescription(bytes: Buffer, checksum: Buffer): IncrementalHeader {
  if (!sha256(bytes).equals(checksum)) throw broken("the description's checksum does not match");
  const json = JSON.parse(bytes.toString("utf8")) as {
    readonly uuid?: unknown;
    readonly ctime?: unknown;
    readonly parent?: { readonly name?: unknown; readonly uuid?: unknown };
    readonly configs?: readonly { readonly name: string; readonly base64: string }[];
    readonly devices?: readonly Partial<IncrementalDevice>[];
  };
  const { uuid, ctime, parent, configs = [], devices = [] } = json;
  if (!isUuid(uuid) || typeof ctime !== "number" || !isUuid(parent?.uuid) || !isFileName(parent?.name))
    throw broken("its description does not say what it is");
  return {
    uuid,
    ctime,
    parent: { name: parent.name, uuid: parent.uuid },
    configs: new Map(configs.map(({ name, base64 }) => [name, Buffer.from(base64, "base64")])),
    devices: devices.map(({ name, size, whole }) => {
      if (typeof name !== "string" || !Number.isSafeInteger(size) || size === undefined || size < 0)
        throw broken("its description has a device that is none");
      return { name, size, whole: whole === true };
    }),
  };
}

export function encodeExtent(extent: ExtentHead): Buffer {
  const head = Buffer.alloc(RECORD_BYTES);
  EXTENT_MAGIC.copy(head, 0);
  head.writeUInt32BE(extent.device, 4);
  head.writeBigUInt64BE(BigInt(extent.offset), 8);
  head.writeUInt32BE(extent.length, 16);
  head.writeUInt32BE(extent.isZero ? FLAG_ZERO : 0, 20);
  head.set(extent.sha256, 24);
  return head;
}

export function encodeEnd(extents: number, checksum: Buffer): Buffer {
  const end = Buffer.alloc(RECORD_BYTES);
  END_MAGIC.copy(end, 0);
  end.writeBigUInt64BE(BigInt(extents), 8);
  end.set(checksum, 24);
  return end;
}

/** An extent's head, or the end. */
export function decodeRecord(
  record: Buffer,
): ExtentHead | { readonly extents: number; readonly checksum: Buffer } {
  const count = Number(record.readBigUInt64BE(8));
  if (record.subarray(0, 4).equals(END_MAGIC)) {
    if (record.readUInt32BE(4) !== 0 || record.readBigUInt64BE(16) !== 0n)
      throw broken("its end is not as it was written");
    return { extents: count, checksum: record.subarray(24, 56) };
  }
  if (!record.subarray(0, 4).equals(EXTENT_MAGIC)) throw broken("an extent does not begin like one");
  const isZero = (record.readUInt32BE(20) & FLAG_ZERO) !== 0;
  const length = record.readUInt32BE(16);
  if (!isZero && length > MAX_EXTENT_BYTES) throw broken(`an extent says it is ${length} bytes long`);
  return {
    device: record.readUInt32BE(4),
    offset: count,
    length,
    isZero,
    sha256: record.subarray(24, 56),
  };
}

function isUuid(value: unknown): value is string {
  return typeof value === "string" && /^[0-9a-f]{32}$/.test(value);
}

/** The parent lies beside its child, nowhere else. */
function isFileName(value: unknown): value is string {
  return typeof value === "string" && value !== "" && !value.includes("/") && !value.startsWith(".");
}
