// The archive a Linux kernel unpacks as its first root: cpio "newc". Every header is 110 ASCII bytes; names and data
// are padded to four bytes. Times and owners are fixed, so that equal files make equal archives.

export interface CpioEntry {
  /** Without a leading slash. */
  readonly path: string;
  readonly kind: "file" | "folder" | "link";
  /** A file's bytes, or where a link points. */
  readonly data?: Uint8Array;
  readonly executable?: boolean;
}

const modes = { file: 0o100644, folder: 0o040755, link: 0o120777 } as const;

export function cpioArchive(entries: readonly CpioEntry[]): Uint8Array {
  const parts: Uint8Array[] = [];
  entries.forEach((entry, index) => {
    const mode = entry.kind === "file" && entry.executable === true ? 0o100755 : modes[entry.kind];
    parts.push(...record(entry.path, index + 1, mode, entry.data ?? new Uint8Array()));
  });
  parts.push(...record("TRAILER!!!", 0, 0, new Uint8Array()));
  return Buffer.concat(parts);
}

/** Adds the folders above each entry, once, before what lies in them. */
export function withFolders(entries: readonly CpioEntry[]): CpioEntry[] {
  const known = new Set(entries.filter(({ kind }) => kind === "folder").map(({ path }) => path));
  const missing = new Set<string>();
  for (const { path } of entries) {
    const steps = path.split("/").slice(0, -1);
    steps.forEach((_, index) => missing.add(steps.slice(0, index + 1).join("/")));
  }
  const folders = [...missing].filter((path) => !known.has(path));
  const rest = [...folders.map((path): CpioEntry => ({ path, kind: "folder" })), ...entries];
  return rest.toSorted((a, b) => (a.path < b.path ? -1 : 1)); // a folder sorts before what is in it
}

function record(name: string, inode: number, mode: number, data: Uint8Array): Uint8Array[] {
  const nameBytes = Buffer.from(`${name}\0`);
  const links = (mode & 0o170000) === 0o040000 ? 2 : 1;
  const fields = [inode, mode, 0, 0, links, 0, data.length, 0, 0, 0, 0, nameBytes.length, 0];
  const header = `070701${fields.map((field) => field.toString(16).padStart(8, "0")).join("")}`;
  return [
    Buffer.concat([Buffer.from(header, "latin1"), nameBytes, padding(header.length + nameBytes.length)]),
    data,
    padding(data.length),
  ];
}

function padding(length: number): Uint8Array {
  return new Uint8Array((4 - (length % 4)) % 4);
}
