// Archives of both kinds as files: full ones (VMA) and incremental ones (gpvi).
import { randomBytes } from "node:crypto";
import type {
  ArchiveHeader,
  ArchiveReader,
  ArchiveWriter,
  Compression,
  IncrementalHeader,
  IncrementalReader,
  ChangesWriter,
} from "@gpve/domain/backup/backup-ports.ts";
import type { ImageTools } from "../image-tools/image-tools.ts";
import { GpviReader } from "./gpvi/gpvi-reader.ts";
import { GpviWriter } from "./gpvi/gpvi-writer.ts";
import { createPackedFile, openPackedFile } from "./packed-file.ts";
import { VmaReader } from "./vma/vma-reader.ts";
import { VmaWriter } from "./vma/vma-writer.ts";

export async function createArchive(
  tools: ImageTools,
  path: string,
  compression: Compression,
  { uuid, ctime, configs, devices }: ArchiveHeader,
): Promise<ArchiveWriter> {
  const file = await createPackedFile(tools, path, compression);
  const id = uuid === undefined ? randomBytes(16) : Buffer.from(uuid, "hex");
  const vma = new VmaWriter({ uuid: id, ctime, configs, devices }, file.write);
  await vma.begin();
  return {
    cluster: (device, cluster, data) => vma.cluster(device, cluster, data),
    zeroCluster: (device, cluster) => vma.zeroCluster(device, cluster),
    async finish() {
      await vma.end();
      await file.finish();
    },
    abandon: file.abandon,
  };
}

export async function openArchive(tools: ImageTools, path: string): Promise<ArchiveReader> {
  const reader = await VmaReader.open(await openPackedFile(tools, path));
  return {
    header: { ...reader.header, uuid: Buffer.from(reader.header.uuid).toString("hex") },
    clusters: () => reader.clusters(),
    close: () => reader.close(),
  };
}

export async function createIncremental(
  tools: ImageTools,
  path: string,
  header: IncrementalHeader,
): Promise<ChangesWriter> {
  const file = await createPackedFile(tools, path, path.endsWith(".zst") ? "zstd" : "none");
  const gpvi = new GpviWriter(header, file.write);
  await gpvi.begin();
  return {
    data: (device, offset, data) => gpvi.data(device, offset, data),
    zeroes: (device, offset, length) => gpvi.zeroes(device, offset, length),
    async finish() {
      await gpvi.end();
      await file.finish();
    },
    abandon: file.abandon,
  };
}

export async function openIncremental(tools: ImageTools, path: string): Promise<IncrementalReader> {
  return GpviReader.open(await openPackedFile(tools, path));
}
