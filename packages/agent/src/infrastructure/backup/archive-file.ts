// VMA archives as files: compressed while they are written, under their name only when they are whole.
import { randomBytes } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import type { Transform } from "node:stream";
import { finished } from "node:stream/promises";
import { createGunzip, createGzip, createZstdCompress, createZstdDecompress } from "node:zlib";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type {
  ArchiveHeader,
  ArchiveReader,
  ArchiveWriter,
  Compression,
} from "@gpve/domain/backup/backup-ports.ts";
import { VmaReader } from "./vma/vma-reader.ts";
import { VmaWriter } from "./vma/vma-writer.ts";

const LZO_TIMEOUT_MS = 24 * 3600_000;

export async function createArchive(
  exec: Exec,
  path: string,
  compression: Compression,
  header: ArchiveHeader,
): Promise<ArchiveWriter> {
  const partial = `${path}.dat`;
  const file = createWriteStream(partial, { mode: 0o600 });
  const packer = packerOf(compression);
  const entry = packer ?? file;
  packer?.pipe(file);
  let failure: unknown;
  for (const stream of [file, ...(packer === undefined ? [] : [packer])])
    stream.on("error", (err: Error) => (failure ??= err));
  const sink = async (bytes: Uint8Array): Promise<void> => {
    if (failure !== undefined) throw wrapped(path, failure);
    if (!entry.write(bytes))
      await new Promise<void>((resolve) =>
        entry
          .once("drain", resolve)
          .once("error", () => resolve())
          .once("close", () => resolve()),
      );
  };
  const vma = new VmaWriter(
    { uuid: randomBytes(16), ctime: header.ctime, configs: header.configs, devices: header.devices },
    sink,
  );
  await vma.begin();
  return {
    cluster: (device, cluster, data) => vma.cluster(device, cluster, data),
    zeroCluster: (device, cluster) => vma.zeroCluster(device, cluster),
    async finish() {
      await vma.end();
      entry.end();
      await finished(file).catch((err: unknown) => {
        throw wrapped(path, failure ?? err);
      });
      if (compression === "lzo") {
        await exec("lzop", ["--force", "-o", `${partial}.lzo`, partial], { timeoutMs: LZO_TIMEOUT_MS });
        await rename(`${partial}.lzo`, partial);
      }
      await sync(partial);
      await rename(partial, path);
    },
    async abandon() {
      entry.destroy();
      file.destroy();
      await rm(partial, { force: true });
      await rm(`${partial}.lzo`, { force: true });
    },
  };
}

export async function openArchive(exec: Exec, path: string): Promise<ArchiveReader> {
  if (path.endsWith(".lzo")) {
    const plain = `${path}.unpacked-${process.pid}`;
    await exec("lzop", ["-d", "--force", "-o", plain, path], { timeoutMs: LZO_TIMEOUT_MS });
    const stream = createReadStream(plain);
    stream.once("close", () => void rm(plain, { force: true }));
    return VmaReader.open(stream);
  }
  const file = createReadStream(path);
  const unpacker = path.endsWith(".zst")
    ? createZstdDecompress()
    : path.endsWith(".gz")
      ? createGunzip()
      : undefined;
  if (unpacker === undefined) return VmaReader.open(file);
  file.on("error", (err) => unpacker.destroy(err));
  return VmaReader.open(named(path, file.pipe(unpacker)));
}

/** A stream that breaks off names the archive, not zlib's insides. */
async function* named(path: string, stream: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* stream;
  } catch (cause) {
    throw new AppError("request.invalid", `the backup archive ${path} is damaged: ${messageOf(cause)}`, {
      cause,
      pveStatus: 500,
    });
  }
}

function packerOf(compression: Compression): Transform | undefined {
  if (compression === "zstd") return createZstdCompress();
  return compression === "gzip" ? createGzip({ level: 1 }) : undefined;
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function wrapped(path: string, cause: unknown): AppError {
  const full = (cause as NodeJS.ErrnoException).code === "ENOSPC";
  return new AppError(
    full ? "capacity.exceeded" : "internal.error",
    `writing the backup ${path} failed: ${messageOf(cause)}`,
    { cause, pveStatus: 500 },
  );
}
