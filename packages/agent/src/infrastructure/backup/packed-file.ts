// Archives as files: compressed while they are written, under their name only when they are whole.
import { randomUUID } from "node:crypto";
import { rename, rm } from "node:fs/promises";
import type { Transform } from "node:stream";
import { finished } from "node:stream/promises";
import { constants, createGunzip, createGzip, createZstdCompress, createZstdDecompress } from "node:zlib";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Compression } from "@gpve/domain/backup/backup-ports.ts";
import { createPlainFile, openPlainFile } from "@gpve/kit/held-file.ts";
import type { ImageTools } from "../image-tools/image-tools.ts";
import { packInto, unpackInto } from "../image-tools/packers.ts";
import { freeRoom, type Room } from "../storage/fetch/room.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";

const LZO_TIMEOUT_MS = 24 * 3600_000;

export interface PackedFile {
  /** Resolves when more is wanted. */
  readonly write: (bytes: Uint8Array) => Promise<void>;
  readonly finish: () => Promise<void>;
  readonly abandon: () => Promise<void>;
}

export async function createPackedFile(
  tools: ImageTools,
  path: string,
  compression: Compression,
  create: typeof createPlainFile = createPlainFile,
): Promise<PackedFile> {
  const partial = `${path}.dat`;
  // What a crash left there, or a link.
  await rm(partial, { force: true });
  const file = (await create(partial, 0o600)).createWriteStream({ flush: true });
  const packer = packerOf(compression);
  const entry = packer ?? file;
  packer?.pipe(file);
  let failure: Error | undefined;
  const streams = packer === undefined ? [file] : [packer, file];
  for (const stream of streams) {
    // Neither knows of the other's end: a packer whose file is full would wait for it for ever.
    stream.on("error", (err: Error) => {
      failure ??= err;
      for (const each of streams) each.destroy(err);
    });
  }
  return {
    async write(bytes) {
      if (failure !== undefined) throw wrapped(path, failure);
      if (!entry.write(bytes)) await roomIn(entry);
      if (failure !== undefined) throw wrapped(path, failure);
    },
    async finish() {
      entry.end();
      await finished(file).catch((err: unknown) => {
        throw wrapped(path, failure ?? err);
      });
      if (compression === "lzo") await repack(tools, partial);
      await rename(partial, path);
    },
    async abandon() {
      entry.destroy();
      file.destroy();
      await rm(partial, { force: true });
    },
  };
}

/** Replaces a file by what lzop makes of it. */
async function repack(tools: ImageTools, partial: string): Promise<void> {
  const packed = `${partial}.lzo`;
  await rm(packed, { force: true });
  const file = await createPlainFile(packed, 0o600);
  try {
    const target = { file, bytes: await freeRoom(packed) };
    await packInto(tools, "lzop", partial, target, { timeoutMs: LZO_TIMEOUT_MS });
    await file.sync();
    await rename(packed, partial);
  } finally {
    await file.close();
    await rm(packed, { force: true });
  }
}

export async function openPackedFile(
  tools: ImageTools,
  path: string,
  room: Room = freeRoom,
): Promise<AsyncIterable<Uint8Array>> {
  if (path.endsWith(".lzo")) return await openLzo(tools, path, room);
  const file = (await openPlainFile(path)).createReadStream();
  const unpacker = path.endsWith(".zst")
    ? createZstdDecompress()
    : path.endsWith(".gz")
      ? createGunzip()
      : undefined;
  if (unpacker === undefined) return file;
  file.on("error", (err) => unpacker.destroy(err));
  // Whoever wants no more of it ends the unpacker alone.
  unpacker.once("close", () => file.destroy());
  return named(path, file.pipe(unpacker));
}

/** All of it at once, as a reader may stop for long. The file has a name just until it is open: no crash leaves it. */
async function openLzo(tools: ImageTools, path: string, room: Room): Promise<AsyncIterable<Uint8Array>> {
  const plain = `${path}.unpacked-${randomUUID()}`;
  const file = await createPlainFile(plain, 0o600);
  try {
    await rm(plain);
    const target = { file, bytes: await room(plain) };
    await unpackInto(tools, "lzop", path, target, { timeoutMs: LZO_TIMEOUT_MS });
    return file.createReadStream({ start: 0 });
  } catch (err) {
    await file.close();
    throw err;
  }
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
  // VMA has no checksum of its data: zstd's own finds a byte that changed.
  if (compression === "zstd") return createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } });
  return compression === "gzip" ? createGzip({ level: 1 }) : undefined;
}

function wrapped(path: string, cause: unknown): AppError {
  const full = (cause as NodeJS.ErrnoException).code === "ENOSPC";
  return new AppError(
    full ? "capacity.exceeded" : "internal.error",
    `writing the backup ${path} failed: ${messageOf(cause)}`,
    { cause, pveStatus: 500 },
  );
}
