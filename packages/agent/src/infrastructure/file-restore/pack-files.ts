// Many files as one stream: zip for those who double-click, tar.zst for those who want modes and links kept.
import { once } from "node:events";
import { Readable } from "node:stream";
import { createZstdCompress } from "node:zlib";
import type { PackedEntry, PackFiles } from "@gpve/domain/backup/file-tree.ts";
import { tarOf } from "./tar-stream.ts";
import { zipOf } from "./zip-stream.ts";

export const packFiles: PackFiles = (format, files) => (format === "zip" ? zipOf(files) : zstdTarOf(files));

async function* zstdTarOf(files: AsyncIterable<PackedEntry>): AsyncGenerator<Uint8Array> {
  const source = Readable.from(tarOf(files), { objectMode: false });
  const packer = createZstdCompress();
  source.on("error", (err) => packer.destroy(err));
  try {
    yield* source.pipe(packer) as AsyncIterable<Uint8Array>;
  } finally {
    packer.destroy();
    source.destroy();
    // Files that are still being read must have been let go of.
    if (!source.closed) await once(source, "close");
  }
}
