// A packed disk image, as releases have it: fetched or read here, unpacked here, for no platform unpacks xz. What is
// unpacked stays, so that it is done once for all nodes.
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { fileDigest } from "./file-digest.ts";

export interface ArchiveRequest {
  /** A URL, or a path that is complete. */
  readonly from: string;
  /** Where it is unpacked to. */
  readonly path: string;
  /** SHA-256 of the archive itself, as releases publish it. */
  readonly sha256: string | null;
}

export interface ArchiveDeps {
  readonly fetch: (url: string) => Promise<Response>;
  readonly exec: Exec;
}

const UNPACK_MS = 30 * 60_000;

/** Whoever asks for what is being unpacked waits for it. */
export function archiveUnpacker(deps: ArchiveDeps): (request: ArchiveRequest) => Promise<void> {
  const running = new Map<string, Promise<void>>();
  return (request) => {
    const known = running.get(request.path);
    if (known !== undefined) return known;
    const work = unpackArchive(request, deps).finally(() => running.delete(request.path));
    running.set(request.path, work);
    return work;
  };
}

/** Complete under its name, or not there. */
async function unpackArchive({ from, path, sha256 }: ArchiveRequest, deps: ArchiveDeps): Promise<void> {
  if ((await stat(path).catch(() => undefined)) !== undefined) return;
  await mkdir(dirname(path), { recursive: true });
  const isFetched = /^https?:\/\//.test(from);
  const packed = isFetched ? `${path}.packed` : from;
  const unpacked = `${path}.part`;
  try {
    if (isFetched) await download(from, packed, deps);
    const found = await fileDigest(packed);
    if (sha256 !== null && sha256 !== found) {
      throw new AppError("object.conflict", `${from} has the SHA-256 ${found}, and ${sha256} is pinned`, {
        data: { finding: "image-changed", next: "It was not unpacked." },
      });
    }
    await unpack(packed, from, unpacked, deps);
    await rename(unpacked, path);
  } finally {
    await rm(unpacked, { force: true });
    if (isFetched) await rm(packed, { force: true });
  }
}

async function download(url: string, path: string, { fetch }: ArchiveDeps): Promise<void> {
  const failed = (why: string, cause?: unknown): AppError =>
    new AppError("node.unavailable", `${url} cannot be fetched: ${why}`, {
      cause,
      data: { finding: "image-refused" },
    });
  const answer = await fetch(url).catch((err: unknown) => {
    throw failed(messageOf(err), err);
  });
  if (answer.status !== 200 || answer.body === null) throw failed(`status ${answer.status}`);
  await pipeline(Readable.fromWeb(answer.body), createWriteStream(path)).catch((err: unknown) => {
    throw failed(messageOf(err), err);
  });
}

async function unpack(packed: string, name: string, path: string, { exec }: ArchiveDeps): Promise<void> {
  try {
    if (name.endsWith(".xz")) {
      const file = await open(path, "w");
      const options = { stdoutFile: file.fd, timeoutMs: UNPACK_MS, diesWithUs: true };
      try {
        await exec("xz", ["--decompress", "--stdout", "--threads=0", packed], options);
      } finally {
        await file.close();
      }
      return;
    }
    const source = createReadStream(packed);
    const target = createWriteStream(path);
    if (name.endsWith(".zst")) await pipeline(source, createZstdDecompress(), target);
    else if (name.endsWith(".gz")) await pipeline(source, createGunzip(), target);
    else await pipeline(source, target);
  } catch (cause) {
    throw new AppError("operation.failed", `${name} cannot be unpacked: ${messageOf(cause)}`, {
      cause,
      data: { finding: "image-broken", next: "Nothing was uploaded." },
    });
  }
}
