// Files of storages that are no disks of guests.
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { open, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import { plainTools, type ImageTools } from "../../image-tools/image-tools.ts";
import { head, inspectImage, refuseDisguised } from "../dir/inspect-image.ts";
import { makeDirectory } from "../dir/make-directory.ts";
import { execWithin, freeRoom, tooLarge, type Room } from "./room.ts";
import { inspectOva } from "./ova.ts";

export type HashName = "md5" | "sha1" | "sha224" | "sha256" | "sha384" | "sha512";

/** Guests get it by their group when they use it. */
const SHARED_FILE = 0o640;
const NO_TIMEOUT_MS = 2 ** 31 - 1;
const MAX_OVF_BYTES = 4 * 1024 * 1024;

export class HostStorageFiles {
  readonly #exec: Exec;
  readonly #tools: ImageTools;
  readonly #room: Room;

  /** `tools`: what works on images; default without confinement. */
  constructor(deps: { readonly exec: Exec; readonly tools?: ImageTools; readonly room?: Room }) {
    this.#exec = deps.exec;
    this.#room = deps.room ?? freeRoom;
    this.#tools = deps.tools ?? plainTools(deps.exec);
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
    try {
      await pipeline(
        createReadStream(from, { highWaterMark: 1024 * 1024 }),
        meter,
        createWriteStream(to, { flags: "wx", mode: SHARED_FILE }),
        { signal: work.signal },
      );
      await syncFile(to);
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== "EEXIST") await rm(to, { force: true });
      throw clearer(err);
    }
  }

  async hash(path: string, algorithm: HashName, signal: AbortSignal): Promise<string> {
    const hash = createHash(algorithm);
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024, signal })) {
      hash.update(chunk as Buffer);
    }
    return hash.digest("hex");
  }

  async decompress(path: string, method: string, signal: AbortSignal): Promise<void> {
    const unpacked = `${path}.unpacked`;
    const work = { signal, timeoutMs: NO_TIMEOUT_MS };
    const limit = await this.#room(unpacked);
    try {
      if (method === "gz") await unpack(path, createGunzip(), unpacked, limit, signal);
      else if (method === "zst") await unpack(path, createZstdDecompress(), unpacked, limit, signal);
      else if (method === "lzo") {
        await execWithin(this.#exec, limit, ["lzop", "-d", "-f", "-o", unpacked, path], work);
      } else if (method === "bz2") {
        await rename(path, `${unpacked}.bz2`);
        await execWithin(this.#exec, limit, ["bzip2", "-d", "-f", `${unpacked}.bz2`], work);
      } else throw storageRefused(`unknown decompression method '${method}'`);
      await rename(unpacked, path);
    } catch (err) {
      if (/^Z(?:STD)?_/.test(String((err as NodeJS.ErrnoException).code)))
        throw storageRefused(`unable to decompress it as ${method}: ${messageOf(err)}`, err);
      throw clearer(err);
    } finally {
      await rm(unpacked, { force: true });
      await rm(`${unpacked}.bz2`, { force: true });
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
  to: string,
  limit: number,
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
  await pipeline(createReadStream(from), decoder, meter, createWriteStream(to, { mode: 0o600 }), { signal });
  await syncFile(to);
}

async function syncFile(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
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
