// An image in which nothing is written yet. Its header names no file below: whoever opens it says what that is.
// Format: https://www.qemu.org/docs/master/interop/qcow2.html

const CLUSTER_BITS = 16;
const CLUSTER = 1 << CLUSTER_BITS;
const SECTOR = 512;
/** One entry of the first table stands for a second table of one cluster, eight bytes for each cluster of data. */
const BYTES_PER_L1_ENTRY = CLUSTER * (CLUSTER / 8);
const HEADER_BYTES = 104;
const VERSION = 3;
const REFCOUNT_ORDER = 4;

/** Layout: header, table of reference counts, its only block, first table. */
export function emptyQcow2(bytes: number): Uint8Array {
  const size = Math.ceil(bytes / SECTOR) * SECTOR;
  const l1Entries = Math.max(1, Math.ceil(size / BYTES_PER_L1_ENTRY));
  const clusters = 3 + Math.ceil((l1Entries * 8) / CLUSTER);
  const image = new Uint8Array(clusters * CLUSTER);
  const view = new DataView(image.buffer);
  image.set([0x51, 0x46, 0x49, 0xfb]); // "QFI\xfb"
  view.setUint32(4, VERSION);
  view.setUint32(20, CLUSTER_BITS);
  view.setBigUint64(24, BigInt(size));
  view.setUint32(36, l1Entries);
  view.setBigUint64(40, BigInt(3 * CLUSTER));
  view.setBigUint64(48, BigInt(CLUSTER));
  view.setUint32(56, 1);
  view.setUint32(96, REFCOUNT_ORDER);
  view.setUint32(100, HEADER_BYTES);
  view.setBigUint64(CLUSTER, BigInt(2 * CLUSTER));
  for (let cluster = 0; cluster < clusters; cluster++) view.setUint16(2 * CLUSTER + cluster * 2, 1);
  return image;
}
