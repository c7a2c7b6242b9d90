import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { StorageWork, VolumeStream } from "@gpve/domain/storage/plugin.ts";
import { openPlainFile, sinkInto } from "@gpve/kit/held-file.ts";
import { refuseReferences } from "./inspect-image.ts";
import type { EmptyImage } from "./empty-image.ts";
import type { DiskFormat } from "./qemu-img.ts";

export async function readImageStream(path: string, format: DiskFormat): Promise<VolumeStream> {
  const file = await openPlainFile(path);
  const { size } = await file.stat();
  return { format, size, body: file.createReadStream({ highWaterMark: 1024 * 1024 }) };
}

/** Fills an empty image; refuses streams that are cut off or name other files. */
export async function fillFromStream(
  { path, file }: EmptyImage,
  stream: VolumeStream & { readonly format: DiskFormat },
  work: StorageWork,
): Promise<void> {
  const cancel = work.signal === undefined ? {} : { signal: work.signal };
  await pipeline(Readable.from(stream.body), sinkInto(file), cancel);
  const { size } = await file.stat();
  if (size !== stream.size) throw storageRefused(`the stream ended after ${size} of ${stream.size} bytes`);
  await refuseReferences(path, stream.format);
}
