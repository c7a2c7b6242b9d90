// The VMA archive format, so that backups made here restore on a Proxmox VE and theirs restore here.
//
//   header (12 288 bytes + blobs)   uuid, time, configuration files, up to 255 devices
//   extent*                         512-byte head with up to 59 clusters, then their 4 KiB blocks that are not zero
//
// Numbers are big-endian, except the length before a blob.
import { CLUSTER_BYTES } from "@gpve/domain/backup/backup-ports.ts";
import { refused } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";

export const BLOCK_BYTES = 4_096;
export const BLOCKS_PER_CLUSTER = CLUSTER_BYTES / BLOCK_BYTES;
export const CLUSTERS_PER_EXTENT = 59;
export const EXTENT_HEAD_BYTES = 512;
export const HEADER_FIXED_BYTES = 12_288;
/** The device that holds a guest's RAM; its clusters come in order and their number is not known before. */
export const VMSTATE_DEVICE = "vmstate";

const HEADER_MAGIC = Buffer.from("VMA\0", "latin1");
const EXTENT_MAGIC = Buffer.from("VMAE", "latin1");
const MAX_ENTRIES = 256;
const MAX_BLOB_BYTES = 65_535;
/** As many clusters as an extent can number. */
const MAX_DEVICE_BYTES = BigInt(2 ** 32 * CLUSTER_BYTES);
const MAX_HEADER_BYTES = 64 * 1024 * 1024;

const at = {
  version: 4,
  uuid: 8,
  ctime: 24,
  md5: 32,
  blobOffset: 48,
  blobSize: 52,
  headerSize: 56,
  names: 2_044,
  data: 3_068,
  devices: 4_096,
};

export interface VmaDevice {
  /** 1 to 255. */
  readonly id: number;
  /** "drive-scsi0" */
  readonly name: string;
  readonly size: number;
}

export interface VmaHeader {
  readonly uuid: Uint8Array;
  /** Seconds since 1970. */
  readonly ctime: number;
  /** File name -> content: "qemu-server.conf", "qemu-server.fw". */
  readonly configs: ReadonlyMap<string, Uint8Array>;
  readonly devices: readonly VmaDevice[];
}

export interface ClusterInfo {
  /** 0 = the slot is empty. */
  readonly device: number;
  readonly cluster: number;
  /** Bit n: block n is stored; clear: it is zero. */
  readonly mask: number;
}

export function broken(what: string): AppError {
  return refused(`the backup archive is damaged: ${what}`);
}

export function encodeHeader(header: VmaHeader): Buffer {
  const blobs = new BlobBuffer();
  const fixed = Buffer.alloc(HEADER_FIXED_BYTES);
  if (header.configs.size > MAX_ENTRIES) throw new RangeError("too many configuration files for one archive");
  for (const [index, [name, content]] of [...header.configs].entries()) {
    fixed.writeUInt32BE(blobs.add(Buffer.from(`${name}\0`)), at.names + index * 4);
    fixed.writeUInt32BE(blobs.add(content), at.data + index * 4);
  }
  for (const { id, name, size } of header.devices) {
    if (id < 1 || id >= MAX_ENTRIES) throw new RangeError(`device id ${id} is not between 1 and 255`);
    fixed.writeUInt32BE(blobs.add(Buffer.from(`${name}\0`)), at.devices + id * 32);
    fixed.writeBigUInt64BE(BigInt(size), at.devices + id * 32 + 8);
  }
  const blob = blobs.padded();
  HEADER_MAGIC.copy(fixed, 0);
  fixed.writeUInt32BE(1, at.version);
  fixed.set(header.uuid, at.uuid);
  fixed.writeBigUInt64BE(BigInt(header.ctime), at.ctime);
  fixed.writeUInt32BE(HEADER_FIXED_BYTES, at.blobOffset);
  fixed.writeUInt32BE(blob.length, at.blobSize);
  fixed.writeUInt32BE(HEADER_FIXED_BYTES + blob.length, at.headerSize);
  const whole = Buffer.concat([fixed, blob]);
  whole.set(md5(whole), at.md5);
  return whole;
}

/** How long the header is; from its first 60 bytes. */
export function headerSize(start: Buffer): number {
  if (!start.subarray(0, 4).equals(HEADER_MAGIC)) throw broken("it does not begin like a VMA archive");
  const version = start.readUInt32BE(at.version);
  if (version !== 1) {
    throw new AppError(
      "feature.unsupported",
      `the backup archive has VMA version ${version}; this version reads 1`,
      { pveStatus: 500 },
    );
  }
  const size = start.readUInt32BE(at.headerSize);
  if (size < HEADER_FIXED_BYTES || size % 512 !== 0 || size > MAX_HEADER_BYTES)
    throw broken(`its header says it is ${size} bytes long`);
  return size;
}

export function decodeHeader(bytes: Buffer): VmaHeader {
  if (!checksumHolds(bytes, at.md5)) throw broken("the header's checksum does not match");
  const blobAt = bytes.readUInt32BE(at.blobOffset);
  const blobs = bytes.subarray(blobAt, blobAt + bytes.readUInt32BE(at.blobSize));
  const configs = new Map<string, Uint8Array>();
  for (let index = 0; index < MAX_ENTRIES; index++) {
    const name = readBlob(blobs, bytes.readUInt32BE(at.names + index * 4));
    const content = readBlob(blobs, bytes.readUInt32BE(at.data + index * 4));
    if (name !== undefined && content !== undefined) configs.set(text(name), content);
  }
  const devices: VmaDevice[] = [];
  for (let id = 1; id < MAX_ENTRIES; id++) {
    const name = readBlob(blobs, bytes.readUInt32BE(at.devices + id * 32));
    if (name === undefined) continue;
    const size = bytes.readBigUInt64BE(at.devices + id * 32 + 8);
    if (size > MAX_DEVICE_BYTES) throw broken(`it says that ${text(name)} has ${size} bytes`);
    devices.push({ id, name: text(name), size: Number(size) });
  }
  return {
    uuid: bytes.subarray(at.uuid, at.uuid + 16),
    ctime: Number(bytes.readBigUInt64BE(at.ctime)),
    configs,
    devices,
  };
}

export function encodeExtentHead(uuid: Uint8Array, clusters: readonly ClusterInfo[]): Buffer {
  const head = Buffer.alloc(EXTENT_HEAD_BYTES);
  EXTENT_MAGIC.copy(head, 0);
  head.writeUInt16BE(
    clusters.reduce((sum, { mask }) => sum + countBits(mask), 0),
    6,
  );
  head.set(uuid, 8);
  for (const [slot, { device, cluster, mask }] of clusters.entries()) {
    const offset = 40 + slot * 8;
    head.writeUInt16BE(mask, offset);
    head.writeUInt8(device, offset + 3);
    head.writeUInt32BE(cluster, offset + 4);
  }
  head.set(md5(head), 24);
  return head;
}

export function decodeExtentHead(
  head: Buffer,
  uuid: Uint8Array,
): { blocks: number; clusters: readonly ClusterInfo[] } {
  if (!head.subarray(0, 4).equals(EXTENT_MAGIC)) throw broken("an extent does not begin like one");
  if (!checksumHolds(head, 24)) throw broken("an extent's checksum does not match");
  if (!head.subarray(8, 24).equals(uuid)) throw broken("an extent belongs to another archive");
  const clusters: ClusterInfo[] = [];
  for (let slot = 0; slot < CLUSTERS_PER_EXTENT; slot++) {
    const offset = 40 + slot * 8;
    const device = head.readUInt8(offset + 3);
    if (device !== 0)
      clusters.push({ device, cluster: head.readUInt32BE(offset + 4), mask: head.readUInt16BE(offset) });
  }
  const blocks = head.readUInt16BE(6);
  if (blocks !== clusters.reduce((sum, { mask }) => sum + countBits(mask), 0))
    throw broken("an extent's block count is wrong");
  return { blocks, clusters };
}

export function countBits(mask: number): number {
  let bits = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) bits++;
  return bits;
}

export function clusterCount(size: number): number {
  return Math.ceil(size / CLUSTER_BYTES);
}

/** Blobs are length and data, one after another; position 0 means "none", so the first byte is not used. */
class BlobBuffer {
  readonly #parts: Buffer[] = [Buffer.alloc(1)];
  #size = 1;

  add(content: Uint8Array): number {
    if (content.length > MAX_BLOB_BYTES)
      throw new RangeError(`a file of ${content.length} bytes does not fit into the archive's header`);
    const position = this.#size;
    const length = Buffer.alloc(2);
    length.writeUInt16LE(content.length);
    this.#parts.push(length, Buffer.from(content));
    this.#size += 2 + content.length;
    return position;
  }

  padded(): Buffer {
    const whole = Buffer.alloc(Math.ceil(this.#size / 512) * 512);
    Buffer.concat(this.#parts).copy(whole);
    return whole;
  }
}

function readBlob(blobs: Buffer, position: number): Buffer | undefined {
  if (position === 0) return undefined;
  if (position + 2 > blobs.length) throw broken("its header points outside itself");
  const end = position + 2 + blobs.readUInt16LE(position);
  if (end > blobs.length) throw broken("its header points outside itself");
  return blobs.subarray(position + 2, end);
}

function text(name: Buffer): string {
  const end = name.indexOf(0);
  return name.toString("utf8", 0, end < 0 ? name.length : end);
}

function md5(bytes: Uint8Array): Buffer {
  return createHash("md5").update(bytes).digest();
}

/** The checksum covers everything, itself as zeros. */
function checksumHolds(bytes: Buffer, position: number): boolean {
  const copy = Buffer.from(bytes);
  copy.fill(0, position, position + 16);
  return md5(copy).equals(bytes.subarray(position, position + 16));
}
