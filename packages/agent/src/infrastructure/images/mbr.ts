// A classic partition table: enough for every PC firmware, and its 440 bytes of boot code start the marked partition.
import { AppError } from "@gpve/contracts/errors.ts";

export interface Partition {
  readonly startBytes: number;
  readonly sizeBytes: number;
  readonly type: number;
  readonly bootable?: boolean;
}

const SECTOR = 512;
const CODE_BYTES = 440;
const BEYOND_CYLINDERS = [0xfe, 0xff, 0xff]; // "use the sector numbers"

export function masterBootRecord(
  code: Uint8Array,
  partitions: readonly Partition[],
  signature: number,
): Uint8Array {
  if (code.length > CODE_BYTES) {
    throw new AppError("internal.error", `boot code of ${code.length} bytes does not fit into ${CODE_BYTES}`);
  }
  if (partitions.length > 4) throw new AppError("internal.error", "a partition table holds four partitions");
  const record = Buffer.alloc(SECTOR);
  record.set(code);
  record.writeUInt32LE(signature, CODE_BYTES);
  partitions.forEach(({ startBytes, sizeBytes, type, bootable }, index) => {
    const at = 446 + index * 16;
    record[at] = bootable === true ? 0x80 : 0;
    record.set(BEYOND_CYLINDERS, at + 1);
    record[at + 4] = type;
    record.set(BEYOND_CYLINDERS, at + 5);
    record.writeUInt32LE(startBytes / SECTOR, at + 8);
    record.writeUInt32LE(sizeBytes / SECTOR, at + 12);
  });
  record.set([0x55, 0xaa], 510);
  return record;
}
