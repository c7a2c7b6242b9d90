import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { ZipFile } from "yazl";
import type { PackedEntry } from "@gpve/domain/backup/file-tree.ts";

const FILE_BITS = 0o100000;
const LINK_BITS = 0o120000;
const DIR_BITS = 0o040000;
/** The format's first day. */
const FIRST_SECOND = Date.UTC(1980, 0, 1) / 1000;

/** Stored, not packed: who wants it small takes the other format. Devices and sockets are left out. */
export async function* zipOf(files: AsyncIterable<PackedEntry>): AsyncGenerator<Uint8Array> {
  const zip = new ZipFile();
  const out = zip.outputStream as Readable;
  zip.on("error", (err) => out.destroy(err as Error));
  const filled = fill(zip, out, files).catch((err: unknown) => void out.destroy(err as Error));
  try {
    yield* out as AsyncIterable<Uint8Array>;
  } finally {
    out.destroy();
    await filled;
  }
}

async function fill(zip: ZipFile, out: Readable, files: AsyncIterable<PackedEntry>): Promise<void> {
  for await (const { path, file, target = "", body } of files) {
    if (out.destroyed) return;
    const name = safeName(path);
    const { kind, mode, size } = file;
    const mtime = new Date(Math.max(file.mtime, FIRST_SECOND) * 1000);
    if (kind === "d") zip.addEmptyDirectory(name, { mode: DIR_BITS | mode, mtime });
    else if (kind === "l")
      zip.addBuffer(Buffer.from(target), name, { mode: LINK_BITS | mode, mtime, compress: false });
    else if (kind === "f") {
      const content = Readable.from(body ?? [], { objectMode: false });
      zip.addReadStream(content, name, { mode: FILE_BITS | mode, mtime, size, compress: false });
      // One after the other: the next file is read when this one has been written.
      const giveUp = (): void => void content.destroy();
      out.once("close", giveUp);
      await finished(content, { writable: false });
      out.off("close", giveUp);
    }
  }
  zip.end();
}

/** A backslash is a letter in a Linux name and a way out of the folder where the archive is unpacked on Windows. */
function safeName(path: string): string {
  return path.replaceAll("\\", "_");
}
