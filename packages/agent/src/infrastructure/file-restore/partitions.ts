// Partition tables, GPT and MBR with logical partitions. The disk is somebody else's: every number is checked.
import type { Partition, RandomAccess } from "@gpve/domain/backup/file-tree.ts";

const SECTOR = 512;
const EXTENDED = new Set([0x05, 0x0f, 0x85]);
const MAX_PARTITIONS = 256;

export async function readPartitions(disk: RandomAccess): Promise<readonly Partition[] | undefined> {
  const first = Buffer.from(await disk.read(0, SECTOR));
  if (first.length < SECTOR || first.readUInt16LE(510) !== 0xaa55 || isFileSystem(first)) return undefined;
  const entries = tableOf(first);
  if (entries.some(({ type }) => type === 0xee)) return readGpt(disk);
  const found: Partition[] = [];
  for (const [index, { type, start, sectors }] of entries.entries()) {
    if (type === 0 || sectors === 0) continue;
    if (EXTENDED.has(type)) found.push(...(await logical(disk, start)));
    else found.push({ number: index + 1, offset: start * SECTOR, size: sectors * SECTOR });
  }
  const inside = found.filter(({ offset, size }) => offset > 0 && offset + size <= disk.size);
  return inside.length === 0 ? undefined : inside.toSorted((a, b) => a.number - b.number);
}

/** A FAT boot sector ends with the same two bytes as a partition table. */
function isFileSystem(sector: Buffer): boolean {
  const bytesPerSector = sector.readUInt16LE(11);
  const jump = sector.readUInt8(0);
  return (
    (jump === 0xeb || jump === 0xe9) &&
    [512, 1024, 2048, 4096].includes(bytesPerSector) &&
    sector.readUInt8(16) > 0 &&
    sector.readUInt8(16) <= 2
  );
}

function tableOf(sector: Buffer): { type: number; start: number; sectors: number }[] {
  return [0, 1, 2, 3].map((index) => {
    const at = 446 + index * 16;
    return {
      type: sector.readUInt8(at + 4),
      start: sector.readUInt32LE(at + 8),
      sectors: sector.readUInt32LE(at + 12),
    };
  });
}

/** A chain of tables; one that leads in a circle ends where it began again. */
async function logical(disk: RandomAccess, base: number): Promise<Partition[]> {
  const found: Partition[] = [];
  const seen = new Set<number>();
  for (let at = base; !seen.has(at) && found.length < MAX_PARTITIONS;) {
    seen.add(at);
    const sector = Buffer.from(await disk.read(at * SECTOR, SECTOR));
    if (sector.length < SECTOR || sector.readUInt16LE(510) !== 0xaa55) break;
    const [own, next] = tableOf(sector);
    if (own !== undefined && own.sectors > 0)
      found.push({
        number: 5 + found.length,
        offset: (at + own.start) * SECTOR,
        size: own.sectors * SECTOR,
      });
    if (next === undefined || next.sectors === 0) break;
    at = base + next.start;
  }
  return found;
}

async function readGpt(disk: RandomAccess): Promise<readonly Partition[] | undefined> {
  const head = Buffer.from(await disk.read(SECTOR, SECTOR));
  if (head.length < SECTOR || head.toString("latin1", 0, 8) !== "EFI PART") return undefined;
  const tableAt = Number(head.readBigUInt64LE(72)) * SECTOR;
  const count = Math.min(head.readUInt32LE(80), MAX_PARTITIONS);
  const entryBytes = head.readUInt32LE(84);
  if (entryBytes < 128 || entryBytes > 4096 || tableAt > disk.size) return undefined;
  const table = Buffer.from(await disk.read(tableAt, count * entryBytes));
  const found: Partition[] = [];
  for (let index = 0; (index + 1) * entryBytes <= table.length; index++) {
    const entry = table.subarray(index * entryBytes, (index + 1) * entryBytes);
    if (entry.subarray(0, 16).every((byte) => byte === 0)) continue;
    const offset = Number(entry.readBigUInt64LE(32)) * SECTOR;
    const end = (Number(entry.readBigUInt64LE(40)) + 1) * SECTOR;
    if (offset > 0 && end > offset && end <= disk.size)
      found.push({ number: index + 1, offset, size: end - offset });
  }
  return found;
}
