// A new qcow2 image that holds nothing yet and builds on another: four small tables. Written here rather than by
// qemu-img, because a hundred clones at once would be a hundred processes for half a kilobyte each; and what is written
// names its base by our own words, without opening it.
// Layout: qemu/docs/interop/qcow2.txt.
import type { FileHandle } from "node:fs/promises";

export interface Overlay {
  /** Bytes the guest sees. */
  readonly size: number;
  /** As the image names it. */
  readonly backingFile: string;
  readonly backingFormat: string;
}

const CLUSTER_BITS = 16;
const CLUSTER = 2 ** CLUSTER_BITS;
const HEADER_LENGTH = 112;
const REFCOUNT_ORDER = 4;
/** Bytes of the guest that one entry of the first table stands for. */
const L1_ENTRY_COVERS = CLUSTER * (CLUSTER / 8);
const SECTOR = 512;
const BACKING_FORMAT = 0xe2792aca;
const LONGEST_NAME = 1023;
/** One block of counters is enough up to here; QEMU itself stops far earlier. */
const LARGEST = 2 ** 50;

const TABLE_OF_COUNTERS = 1;
const COUNTERS = 2;
const L1_TABLE = 3;

/** The file must be empty. */
export async function writeOverlay(file: FileHandle, overlay: Overlay): Promise<void> {
  const { header, counters, length } = layOut(overlay);
  await file.truncate(length);
  await file.write(header, 0, header.length, 0);
  const first = new Uint8Array(8);
  new DataView(first.buffer).setBigUint64(0, BigInt(COUNTERS * CLUSTER));
  await file.write(first, 0, first.length, TABLE_OF_COUNTERS * CLUSTER);
  await file.write(counters, 0, counters.length, COUNTERS * CLUSTER);
}

function layOut({ size, backingFile, backingFormat }: Overlay): {
  header: Uint8Array;
  counters: Uint8Array;
  length: number;
} {
  const virtualSize = Math.ceil(size / SECTOR) * SECTOR;
  const name = new TextEncoder().encode(backingFile);
  const format = new TextEncoder().encode(backingFormat);
  if (virtualSize > LARGEST) throw new RangeError(`a disk of ${size} bytes is too large`);
  if (name.length === 0 || name.length > LONGEST_NAME)
    throw new RangeError(`the name of the base has ${name.length} bytes, 1 to ${LONGEST_NAME} are possible`);
  const l1Entries = Math.ceil(virtualSize / L1_ENTRY_COVERS);
  const extension = 8 + Math.ceil(format.length / 8) * 8;
  const nameAt = HEADER_LENGTH + extension + 8;
  const header = new Uint8Array(nameAt + name.length);
  const view = new DataView(header.buffer);
  header.set([0x51, 0x46, 0x49, 0xfb]);
  view.setUint32(4, 3);
  view.setBigUint64(8, BigInt(nameAt));
  view.setUint32(16, name.length);
  view.setUint32(20, CLUSTER_BITS);
  view.setBigUint64(24, BigInt(virtualSize));
  view.setUint32(36, l1Entries);
  view.setBigUint64(40, BigInt(L1_TABLE * CLUSTER));
  view.setBigUint64(48, BigInt(TABLE_OF_COUNTERS * CLUSTER));
  view.setUint32(56, 1);
  view.setUint32(96, REFCOUNT_ORDER);
  view.setUint32(100, HEADER_LENGTH);
  view.setUint32(HEADER_LENGTH, BACKING_FORMAT);
  view.setUint32(HEADER_LENGTH + 4, format.length);
  header.set(format, HEADER_LENGTH + 8);
  header.set(name, nameAt);
  const clusters = L1_TABLE + Math.ceil((l1Entries * 8) / CLUSTER);
  const counters = new Uint8Array(clusters * 2);
  for (let at = 0; at < clusters; at++) counters[at * 2 + 1] = 1;
  return { header, counters, length: L1_TABLE * CLUSTER + l1Entries * 8 };
}
