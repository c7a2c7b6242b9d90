// Archives for what is started here: images of containers, settings of machines.

export type TarEntry =
  | { readonly path: string; readonly kind: "folder" }
  | { readonly path: string; readonly kind: "file"; readonly content: Uint8Array; readonly mode?: number }
  | { readonly path: string; readonly kind: "link"; readonly to: string };

/** As tar has it, with nothing in it that changes from one time to the next. */
export function tarArchive(entries: readonly TarEntry[]): Buffer {
  const parts: Uint8Array[] = [];
  for (const entry of entries) {
    const content = entry.kind === "file" ? entry.content : new Uint8Array();
    parts.push(header(entry, content.length), content, new Uint8Array(-content.length & 511));
  }
  return Buffer.concat([...parts, new Uint8Array(1024)]);
}

const TYPES = { file: "0", link: "2", folder: "5" } as const;

function header(entry: TarEntry, size: number): Buffer {
  const block = Buffer.alloc(512);
  const octal = (value: number, at: number, length: number): void =>
    void block.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at);
  const mode = entry.kind === "file" ? (entry.mode ?? 0o644) : entry.path === "tmp" ? 0o1777 : 0o755;
  block.write(entry.kind === "folder" ? `${entry.path}/` : entry.path, 0, 100);
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  block.write(TYPES[entry.kind], 156);
  if (entry.kind === "link") block.write(entry.to, 157, 100);
  block.write("ustar\0" + "00", 257);
  // The sum is of the block with blanks where the sum is.
  block.fill(" ", 148, 156);
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return block;
}
