// Files of storages that are no disks of guests.
import { createHash } from "node:crypto";
import { rename, rm, stat, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { createPlainFile, openPlainFile, sinkInto, withHeldFile } from "@gpve/kit/held-file.ts";
import type { ImageTools } from "../../image-tools/image-tools.ts";
import { unpackInto } from "../../image-tools/packers.ts";
import { head, inspectImage, refuseDisguised } from "../../image-tools/inspect-image.ts";
import { makeDirectory } from "../dir/make-directory.ts";
import { freeRoom, tooLarge, type Room } from "./room.ts";
import { inspectOva } from "./ova.ts";

export type HashName = "md5" | "sha1" | "sha224" | "sha256" | "sha384" | "sha512";

/** Guests get it by their group when they use it. */
const SHARED_FILE = 0o640;
const NO_TIMEOUT_MS = 2 ** 31 - 1;
const MAX_OVF_BYTES = 4 * 1024 * 1024;

export class HostStorageFiles {
  readonly #tools: ImageTools;
  readonly #room: Room;

  /** `tools`: what works on images. */
  constructor(deps: { readonly exec: Exec; readonly tools: ImageTools; readonly room?: Room }) {
    this.#room = deps.room ?? freeRoom;
    this.#tools = deps.tools;
  }

  async exists(path: string): Promise<boolean> {
    return (await stat(path).catch(() => undefined)) !== undefined;
  }

  async size(path: string): Promise<number> {
    return (await stat(path)).size;
  }

  async remove(path: string): Promise<void> {
    await rm(path, { force: true });
  }

  async makeDirectory(path: string): Promise<void> {
    await makeDirectory(path, 0o711);
  }

  async install(from: string, to: string, signal: AbortSignal): Promise<void> {
    await this.makeDirectory(dirname(to));
    await withHeldFile(from, ({ chmod }) => chmod(SHARED_FILE));
    try {
      await rename(from, to);
      return;
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== "EXDEV") throw err;
    }
    const beside = join(dirname(to), `.install-${process.pid}-${Date.now().toString(36)}`);
    try {
      await this.copy(from, beside, { signal, progress: () => undefined });
      await rename(beside, to);
    } finally {
      await rm(beside, { force: true });
    }
    await rm(from, { force: true });
  }

  async copy(
    from: string,
    to: string,
    work: { readonly signal: AbortSignal; readonly progress: (fraction: number) => void },
  ): Promise<void> {
    await this.makeDirectory(dirname(to));
    const total = Math.max(1, await this.size(from));
    let done = 0;
    const meter = new Transform({
      transform(chunk: Buffer, _encoding, next) {
        done += chunk.length;
        work.progress(Math.min(1, done / total));
        next(null, chunk);
      },
    });
    const file = await createPlainFile(to, SHARED_FILE);
    try {
      const source = (await openPlainFile(from)).createReadStream({ highWaterMark: 1024 * 1024 });
      await pipeline(source, meter, sinkInto(file), { signal: work.signal });
      await file.sync();
    } catch (err) {
      await rm(to, { force: true });
      throw clearer(err);
    } finally {
      await file.close();
    }
  }

  async hash(path: string, algorithm: HashName, signal: AbortSignal): Promise<string> {
    const hash = createHash(algorithm);
    const file = await openPlainFile(path);
    for await (const chunk of file.createReadStream({ highWaterMark: 1024 * 1024, signal })) {
      hash.update(chunk as Buffer);
    }
    return hash.digest("hex");
  }

  async decompress(path: string, method: string, signal: AbortSignal): Promise<void> {
    const unpacked = `${path}.unpacked`;
    const work = { signal, timeoutMs: NO_TIMEOUT_MS };
    const bytes = await this.#room(unpacked);
    await rm(unpacked, { force: true });
    const file = await createPlainFile(unpacked, 0o600);
    try {
      if (method === "gz") await unpack(path, createGunzip(), { file, bytes }, signal);
      else if (method === "zst") await unpack(path, createZstdDecompress(), { file, bytes }, signal);
      else if (method === "lzo") await unpackInto(this.#tools, "lzop", path, { file, bytes }, work);
      else if (method === "bz2") await unpackInto(this.#tools, "bzip2", path, { file, bytes }, work);
      else throw storageRefused(`unknown decompression method '${method}'`);
      await file.sync();
      await rename(unpacked, path);
    } catch (err) {
      if (/^Z(?:STD)?_/.test(String((err as NodeJS.ErrnoException).code)))
        throw storageRefused(`unable to decompress it as ${method}: ${messageOf(err)}`, err);
      throw clearer(err);
    } finally {
      await file.close();
      await rm(unpacked, { force: true });
    }
  }

  async ovfText(path: string, name: string): Promise<string> {
    if (!/\.ova$/i.test(name)) return readOvf(path);
    const member = (await inspectOva(path)).find((each) => /\.ovf$/i.test(each.name));
    return readOvf(path, member);
  }

  async inspect(path: string, name: string, signal: AbortSignal): Promise<void> {
    const extension = /\.(\w+)$/.exec(name)?.[1]?.toLowerCase();
    if (extension === "ova") {
      await inspectOva(path);
      return;
    }
    if (extension === "iso" || extension === "img") {
      await refuseDisguised(path);
      return;
    }
    if (extension !== "qcow2" && extension !== "vmdk" && extension !== "raw") return;
    await inspectImage(path, extension, { tools: this.#tools, signal });
  }
}

async function readOvf(
  path: string,
  region?: { readonly offset: number; readonly size: number },
): Promise<string> {
  const length = region?.size ?? (await stat(path)).size;
  if (length > MAX_OVF_BYTES) throw storageRefused(`the OVF description has ${length} bytes: too many`);
  return new TextDecoder().decode(await head(path, length, region));
}

async function unpack(
  from: string,
  decoder: NodeJS.ReadWriteStream,
  { file, bytes: limit }: { readonly file: FileHandle; readonly bytes: number },
  signal: AbortSignal,
): Promise<void> {
  let written = 0;
  const meter = new Transform({
    transform(chunk: Buffer, _encoding, next) {
      written += chunk.length;
      if (written > limit) next(tooLarge(limit));
      else next(null, chunk);
    },
  });
  const source = (await openPlainFile(from)).createReadStream();
  await pipeline(source, decoder, meter, sinkInto(file), { signal });
}

function clearer(err: unknown): unknown {
  const { code } = err as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new AppError("capacity.exceeded", `not enough space on the storage: ${messageOf(err)}`, {
      cause: err,
      pveStatus: 500,
    });
  }
  return err;
}
