// The records inside folders and path tables of an ISO 9660 disc, once with the standard's names and Rock Ridge
// beside them, once with Joliet's.
import type { IsoFile, IsoFolder } from "./iso-tree.ts";

export interface IsoPlace {
  readonly sector: number;
  readonly bytes: number;
}

export interface IsoNaming {
  readonly descriptorType: number;
  readonly escape: Uint8Array;
  compare(a: string, b: string): number;
  padded(text: string, bytes: number): Uint8Array;
  identifier(name: string, kind: "file" | "folder", siblings: readonly string[]): Uint8Array;
  record(identifier: Uint8Array, place: IsoPlace, kind: "file" | "folder", extra: Uint8Array): Uint8Array;
  rootRecord(place: IsoPlace): Uint8Array;
  /** Rock Ridge's part of a record; empty elsewhere. */
  extra(of: "self" | "parent" | "file" | "folder", name: string, isRoot: boolean, links: number): Uint8Array;
}

const SECTOR = 2048;
const SELF = Uint8Array.of(0);
const PARENT = Uint8Array.of(1);

export function plainNaming(time: Date): IsoNaming {
  return {
    ...recordMaker(time),
    descriptorType: 1,
    escape: new Uint8Array(),
    compare: byCode,
    padded: (text, bytes) => Buffer.from(text.slice(0, bytes).padEnd(bytes, " "), "latin1"),
    identifier: (name, kind, siblings) => Buffer.from(shortName(name, kind, siblings), "latin1"),
    extra: rockRidge,
  };
}

export function jolietNaming(time: Date): IsoNaming {
  return {
    ...recordMaker(time),
    descriptorType: 2,
    escape: Buffer.from("%/E", "latin1"), // UCS-2 level 3
    compare: byCode,
    padded: (text, bytes) => {
      const wide = wideText(text.slice(0, bytes >> 1).padEnd(bytes >> 1, " "));
      return Buffer.concat([wide, new Uint8Array(bytes - wide.length)]);
    },
    identifier: (name) => wideText(name.slice(0, 64)),
    extra: () => new Uint8Array(),
  };
}

/** All records of a folder; none may cross the end of a sector. */
export function folderBytes(
  folder: IsoFolder,
  parent: IsoFolder,
  naming: IsoNaming,
  placeOf: (node: IsoFolder | IsoFile) => IsoPlace,
): Uint8Array {
  const isRoot = folder.parent === undefined;
  const links = (of: IsoFolder): number => 2 + of.folders.length;
  const names = [...folder.files, ...folder.folders].map(({ name }) => name);
  const children = [
    ...folder.files.map((node) => ({ node, kind: "file" as const, links: 1 })),
    ...folder.folders.map((node) => ({ node, kind: "folder" as const, links: links(node) })),
  ]
    .map((child) => ({ ...child, id: naming.identifier(child.node.name, child.kind, names) }))
    .toSorted((a, b) => Buffer.compare(a.id, b.id));
  const records = [
    naming.record(SELF, placeOf(folder), "folder", naming.extra("self", "", isRoot, links(folder))),
    naming.record(PARENT, placeOf(parent), "folder", naming.extra("parent", "", false, links(parent))),
    ...children.map(({ node, kind, links: count, id }) =>
      naming.record(id, placeOf(node), kind, naming.extra(kind, node.name, false, count)),
    ),
  ];
  const sectors: Buffer[] = [];
  let current: Uint8Array[] = [];
  const close = (): void => {
    const bytes = Buffer.concat(current);
    sectors.push(Buffer.concat([bytes, new Uint8Array(SECTOR - bytes.length)]));
    current = [];
  };
  for (const record of records) {
    const used = current.reduce((sum, { length }) => sum + length, 0);
    if (used + record.length > SECTOR) close();
    current.push(record);
  }
  close();
  return Buffer.concat(sectors);
}

export function pathTable(
  folders: readonly IsoFolder[],
  naming: IsoNaming,
  sectorOf: (folder: IsoFolder) => number,
  order: "little" | "big",
): Uint8Array {
  const numbers = new Map(folders.map((folder, index) => [folder, index + 1]));
  const parts = folders.map((folder) => {
    const siblings = folder.parent?.folders.map(({ name }) => name) ?? [];
    const id = folder.parent === undefined ? SELF : naming.identifier(folder.name, "folder", siblings);
    const head = Buffer.alloc(8);
    head[0] = id.length;
    const parent = numbers.get(folder.parent ?? folder) ?? 1;
    if (order === "little") {
      head.writeUInt32LE(sectorOf(folder), 2);
      head.writeUInt16LE(parent, 6);
    } else {
      head.writeUInt32BE(sectorOf(folder), 2);
      head.writeUInt16BE(parent, 6);
    }
    return Buffer.concat([head, id, new Uint8Array(id.length % 2)]);
  });
  return Buffer.concat(parts);
}

function recordMaker(time: Date): Pick<IsoNaming, "record" | "rootRecord"> {
  const stamp = [
    time.getUTCFullYear() - 1900,
    time.getUTCMonth() + 1,
    time.getUTCDate(),
    time.getUTCHours(),
    time.getUTCMinutes(),
    time.getUTCSeconds(),
    0,
  ];
  const record: IsoNaming["record"] = (identifier, { sector, bytes }, kind, extra) => {
    const padding = identifier.length % 2 === 0 ? 1 : 0;
    const start = 33 + identifier.length + padding;
    const result = Buffer.alloc(start + extra.length + (extra.length % 2));
    result[0] = result.length;
    result.writeUInt32LE(sector, 2);
    result.writeUInt32BE(sector, 6);
    result.writeUInt32LE(bytes, 10);
    result.writeUInt32BE(bytes, 14);
    result.set(stamp, 18);
    result[25] = kind === "folder" ? 2 : 0;
    result.writeUInt16LE(1, 28);
    result.writeUInt16BE(1, 30);
    result[32] = identifier.length;
    result.set(identifier, 33);
    result.set(extra, start);
    return result;
  };
  return { record, rootRecord: (place) => record(SELF, place, "folder", new Uint8Array()) };
}

/** SP and ER in the root's own record announce Rock Ridge; PX has mode and owner, NM the real name. */
function rockRidge(
  of: "self" | "parent" | "file" | "folder",
  name: string,
  isRoot: boolean,
  links: number,
): Uint8Array {
  const id = Buffer.from("RRIP_1991A");
  const announce = isRoot ? [entry("SP", [0xbe, 0xef, 0]), entry("ER", [id.length, 0, 0, 1, ...id])] : [];
  const mode = of === "file" ? 0o100444 : 0o040555;
  const posix = entry("PX", [mode, links, 0, 0].flatMap(bothOrders));
  const names = of === "file" || of === "folder" ? [entry("NM", [0, ...Buffer.from(name)])] : [];
  return Buffer.concat([...announce.slice(0, 1), posix, ...names, ...announce.slice(1)]);
}

function entry(signature: string, body: readonly number[]): Uint8Array {
  return Buffer.from([...Buffer.from(signature), 4 + body.length, 1, ...body]);
}

function bothOrders(value: number): number[] {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(value, 0);
  bytes.writeUInt32BE(value, 4);
  return [...bytes];
}

/** Capital letters, digits and `_`, at most 8 and 3; a number makes equal ones differ. */
function shortName(name: string, kind: "file" | "folder", siblings: readonly string[]): string {
  const plain = (other: string): [string, string] => {
    const clean = other.toUpperCase().replaceAll(/[^A-Z0-9._]/g, "_");
    const dot = kind === "file" ? clean.lastIndexOf(".") : -1;
    const stem = (dot < 0 ? clean : clean.slice(0, dot)).replaceAll(".", "_").slice(0, 8);
    return [stem, dot < 0 ? "" : clean.slice(dot + 1, dot + 4)];
  };
  const [stem, end] = plain(name);
  const equal = siblings.filter((other) => plain(other).join(".") === `${stem}.${end}`);
  const position = equal.indexOf(name);
  const unique = position > 0 ? `${stem.slice(0, 5)}${String(position).padStart(3, "0")}` : stem;
  return kind === "file" ? `${unique}.${end};1` : unique;
}

function wideText(text: string): Buffer {
  return Buffer.from(text, "utf16le").swap16();
}

function byCode(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
