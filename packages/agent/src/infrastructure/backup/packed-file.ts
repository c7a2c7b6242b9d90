// Archives as files: compressed while they are written, under their name only when they are whole.
import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import type { Transform } from "node:stream";
import { finished } from "node:stream/promises";
import { constants, createGunzip, createGzip, createZstdCompress, createZstdDecompress } from "node:zlib";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Compression } from "@gpve/domain/backup/backup-ports.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { execWithin, freeRoom, type Room } from "../storage/fetch/room.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";

const LZO_TIMEOUT_MS = 24 * 3600_000;

export interface PackedFile {
  /** Resolves when more is wanted. */
  readonly write: (bytes: Uint8Array) => Promise<void>;
  readonly finish: () => Promise<void>;
  readonly abandon: () => Promise<void>;
}

export function createPackedFile(exec: Exec, path: string, compression: Compression): PackedFile {
  const partial = `${path}.dat`;
  const file = createWriteStream(partial, { mode: 0o600 });
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

export async function openPackedFile(
  exec: Exec,
  path: string,
  room: Room = freeRoom,
): Promise<AsyncIterable<Uint8Array>> {
  if (path.endsWith(".lzo")) return await openLzo(exec, path, room);
  const file = createReadStream(path);
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

/** lzop writes files only. This one has a name just until it is open: nobody else reads it, and no crash leaves it. */
async function openLzo(exec: Exec, path: string, room: Room): Promise<AsyncIterable<Uint8Array>> {
  const plain = `${path}.unpacked-${randomUUID()}`;
  try {
    const argv = ["lzop", "-d", "-o", plain, path];
    await execWithin(exec, await room(plain), argv, { timeoutMs: LZO_TIMEOUT_MS });
    return (await open(plain)).createReadStream();
  } finally {
    await rm(plain, { force: true });
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
