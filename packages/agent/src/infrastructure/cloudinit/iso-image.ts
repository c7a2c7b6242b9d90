// A small ISO 9660 writer for drives that a guest reads once. Names are kept three times, as most tools do: in capital
// letters for the standard, with Joliet for Windows, with Rock Ridge for Unix. The result is one extent per file,
// everything aligned to sectors of 2048 bytes, and depends on nothing but its arguments.
//
//   0-15 unused | 16 primary | 17 Joliet | 18 end | path tables | folders (both trees) | files
import { type IsoFile, type IsoFolder, isoTree, walkFolders } from "./iso-tree.ts";
import { folderBytes, type IsoNaming, jolietNaming, plainNaming, pathTable } from "./iso-records.ts";

export const ISO_SECTOR = 2048;
const FIRST_FREE = 19;

export interface IsoOptions {
  readonly label: string;
  /** Contents by path, without a leading slash. */
  readonly files: Readonly<Record<string, string | Uint8Array>>;
  /** Of all files; milliseconds since 1970. */
  readonly timeMs?: number;
}

interface Tree {
  readonly naming: IsoNaming;
  readonly folders: readonly IsoFolder[];
  readonly place: Map<IsoFolder | IsoFile, { sector: number; bytes: number }>;
  readonly tables: { little: number; big: number; bytes: number };
}

export function isoImage({ label, files, timeMs = 0 }: IsoOptions): Uint8Array {
  const root = isoTree(files);
  const time = new Date(timeMs);
  let next = FIRST_FREE;
  const take = (bytes: number): number => {
    const sector = next;
    next += Math.max(1, Math.ceil(bytes / ISO_SECTOR));
    return sector;
  };
  const trees = [plainNaming(time), jolietNaming(time)].map((naming): Tree => {
    const folders = walkFolders(root, naming);
    const bytes = pathTable(folders, naming, () => 0, "little").length;
    return { naming, folders, place: new Map(), tables: { little: take(bytes), big: take(bytes), bytes } };
  });
  for (const { naming, folders, place } of trees) {
    for (const folder of folders) {
      const { length } = folderBytes(folder, folder, naming, () => ({ sector: 0, bytes: 0 }));
      place.set(folder, { sector: take(length), bytes: length });
    }
  }
  const contents = new Map<number, Uint8Array>();
  for (const folder of trees[0]?.folders ?? []) {
    for (const file of folder.files) {
      const sector = take(file.data.length);
      contents.set(sector, file.data);
      for (const { place } of trees) place.set(file, { sector, bytes: file.data.length });
    }
  }
  for (const { naming, folders, place, tables } of trees) {
    const at = (node: IsoFolder | IsoFile) => place.get(node) ?? { sector: 0, bytes: 0 };
    const sectorOf = (folder: IsoFolder): number => at(folder).sector;
    for (const order of ["little", "big"] as const) {
      contents.set(tables[order], pathTable(folders, naming, sectorOf, order));
    }
    for (const folder of folders) {
      contents.set(sectorOf(folder), folderBytes(folder, folder.parent ?? folder, naming, at));
    }
  }
  const image = Buffer.alloc(next * ISO_SECTOR);
  trees.forEach((tree, index) => {
    const rootPlace = tree.place.get(root) ?? { sector: 0, bytes: 0 };
    image.set(descriptor(tree, label, next, rootPlace, time), (16 + index) * ISO_SECTOR);
  });
  image.set([255, ...Buffer.from("CD001"), 1], 18 * ISO_SECTOR);
  for (const [sector, data] of contents) image.set(data, sector * ISO_SECTOR);
  return image;
}

function descriptor(
  { naming, tables }: Tree,
  label: string,
  sectors: number,
  root: { sector: number; bytes: number },
  time: Date,
): Uint8Array {
  const record = Buffer.alloc(ISO_SECTOR);
  const both32 = (at: number, value: number): void => {
    record.writeUInt32LE(value, at);
    record.writeUInt32BE(value, at + 4);
  };
  const both16 = (at: number, value: number): void => {
    record.writeUInt16LE(value, at);
    record.writeUInt16BE(value, at + 2);
  };
  record.set([naming.descriptorType, ...Buffer.from("CD001"), 1]);
  record.set(naming.padded("", 32), 8); // system
  record.set(naming.padded(label, 32), 40);
  both32(80, sectors);
  record.set(naming.escape, 88);
  both16(120, 1);
  both16(124, 1);
  both16(128, ISO_SECTOR);
  both32(132, tables.bytes);
  record.writeUInt32LE(tables.little, 140);
  record.writeUInt32BE(tables.big, 148);
  record.set(naming.rootRecord(root), 156);
  record.set(naming.padded("", 623), 190); // volume set to bibliography: all empty
  const stamp = `${time.toISOString().replaceAll(/\D/g, "").slice(0, 16)}\0`;
  const never = `${"0".repeat(16)}\0`;
  record.set(Buffer.from(stamp + stamp + never + never, "latin1"), 813);
  record[881] = 1;
  return record;
}
