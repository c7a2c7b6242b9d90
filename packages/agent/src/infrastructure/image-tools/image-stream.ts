import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { DiskFormat } from "@gpve/domain/storage/block-node.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { StorageWork, VolumeStream } from "@gpve/domain/storage/plugin.ts";
import { openPlainFile, sinkInto } from "@gpve/kit/held-file.ts";
import { refuseReferences } from "./inspect-image.ts";
import type { EmptyImage } from "./empty-image.ts";

/** Of a device its size is known to who has it. */
export async function readImageStream(
  path: string,
  format: DiskFormat,
  deviceBytes?: number,
): Promise<VolumeStream> {
  const file = await openPlainFile(path);
  const size = deviceBytes ?? (await file.stat()).size;
  return { format, size, body: file.createReadStream({ highWaterMark: 1024 * 1024 }) };
}

/** Fills an empty image; refuses streams that are cut off or name other files. */
export async function fillFromStream(
  { path, file }: EmptyImage,
  stream: VolumeStream & { readonly format: DiskFormat },
  work: StorageWork,
): Promise<void> {
  const cancel = work.signal === undefined ? {} : { signal: work.signal };
  let bytes = 0;
  const counted = async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of stream.body) {
      bytes += chunk.length;
      if (bytes > stream.size) throw storageRefused(`the stream has more than its ${stream.size} bytes`);
      yield chunk;
    }
  };
  await pipeline(Readable.from(counted()), sinkInto(file), cancel);
  if (bytes !== stream.size) throw storageRefused(`the stream ended after ${bytes} of ${stream.size} bytes`);
  await refuseReferences(path, stream.format);
}
