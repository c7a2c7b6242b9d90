// A small FAT12 file system and a partition table, byte by byte.

const SECTOR = 512;
const SECTORS = 64;

/** One FAT, sixteen root entries, a file over two clusters under a long name, a folder. */
export function fatImage(): Buffer {
  const image = Buffer.alloc(SECTORS * SECTOR);
  Buffer.from([0xeb, 0x3c, 0x90]).copy(image);
  image.write("MSDOS5.0", 3, "latin1");
  image.writeUInt16LE(SECTOR, 11);
  image.writeUInt8(1, 13); // sectors per cluster
  image.writeUInt16LE(1, 14); // reserved
  image.writeUInt8(1, 16); // FATs
  image.writeUInt16LE(16, 17); // root entries
  image.writeUInt16LE(SECTORS, 19);
  image.writeUInt16LE(1, 22); // sectors per FAT
  image.writeUInt16LE(0xaa55, 510);
  const fat = SECTOR;
  // Cluster 2 -> 3 -> end; 4 -> end.
  Buffer.from([0xf8, 0xff, 0xff, 0x03, 0xf0, 0xff, 0xff, 0x0f]).copy(image, fat);
  const root = 2 * SECTOR;
  longName(image.subarray(root, root + 32), "long name.txt");
  entry(image.subarray(root + 32, root + 64), "LONGNA~1TXT", 0x20, 2, 700);
  entry(image.subarray(root + 64, root + 96), "FOLDER     ", 0x10, 4, 0);
  image.fill("content", root + SECTOR, root + 3 * SECTOR);
  entry(image.subarray(root + 3 * SECTOR, root + 3 * SECTOR + 32), "INSIDE  TXT", 0x20, 2, 10);
  return image;
}

/** Two primary partitions and an extended one with one inside. */
export function masterBootRecord(): Buffer {
  const image = Buffer.alloc(16 * SECTOR);
  const put = (at: number, type: number, start: number, sectors: number): void => {
    image.writeUInt8(type, at + 4);
    image.writeUInt32LE(start, at + 8);
    image.writeUInt32LE(sectors, at + 12);
  };
  put(446, 0x83, 1, 4);
  put(462, 0x0c, 5, 3);
  put(478, 0x05, 8, 8);
  put(8 * SECTOR + 446, 0x83, 1, 3);
  put(8 * SECTOR + 462, 0x05, 4, 4);
  put(12 * SECTOR + 446, 0x83, 1, 3);
  for (const sector of [0, 8, 12]) image.writeUInt16LE(0xaa55, sector * SECTOR + 510);
  return image;
}

function entry(at: Buffer, name: string, attributes: number, cluster: number, size: number): void {
  at.write(name, 0, "latin1");
  at.writeUInt8(attributes, 11);
  at.writeUInt16LE(cluster, 26);
  at.writeUInt32LE(size, 28);
}

function longName(at: Buffer, name: string): void {
  const units = Buffer.alloc(26, 0xff);
  units.write(`${name}\0`.slice(0, 13), "utf16le");
  at.writeUInt8(0x41, 0);
  at.writeUInt8(0x0f, 11);
  units.copy(at, 1, 0, 10);
  units.copy(at, 14, 10, 22);
  units.copy(at, 28, 22, 26);
}
