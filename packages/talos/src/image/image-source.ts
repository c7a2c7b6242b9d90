// Where an image's bytes come from: a file of the offline directory, an archive that is unpacked here, else an Image
// Factory. What was used once is held to.
import { readdir, rm, stat } from "node:fs/promises";
import { basename, isAbsolute, join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { ImageSource, LocalImage } from "../driver/driver.ts";
import { imageFile, ownSum } from "./image-file.ts";
import { fileDigest } from "./file-digest.ts";
import type { ArchiveRequest } from "./unpack-archive.ts";

export interface SourceDeps {
  readonly cluster: Pick<Cluster, "image" | "versions">;
  /** Where paths of the file are relative to. */
  readonly folder: string;
  /** SHA-256 of an image that was used before. */
  readonly pinOf: (name: string) => string | undefined;
  readonly pin: (name: string, sha256: string) => void;
  /** The platform fetches it held to nothing. */
  readonly leaveUnpinned: (name: string, why: string) => void;
  /** SHA-256 of what lies at an address. */
  readonly digest: (url: string) => Promise<string>;
  readonly signal?: AbortSignal | undefined;
  /** Makes the image's schematic known; returns from where it is fetched. */
  readonly prepare: (url: string) => Promise<string>;
  /** Where archives are unpacked to. */
  readonly work: string;
  readonly unpack: (request: ArchiveRequest) => Promise<void>;
}

export interface WantedImage {
  readonly name: string;
  readonly url: string;
  readonly content: string;
}

export async function imageSource(
  { name, url, content }: WantedImage,
  deps: SourceDeps,
): Promise<ImageSource | LocalImage> {
  const own = ownSum(deps.cluster, name);
  const path = await localPath(name, url, deps);
  if (path === undefined) {
    const from = await deps.prepare(url);
    // Asked after that: whoever fetches it for another node may know by then.
    const sha256 = own ?? deps.pinOf(name) ?? (await learnt(name, from, deps));
    return { name, content, url: from, ...given({ sha256 }) };
  }
  const sha256 = await digestOf(path);
  const expected = own ?? deps.pinOf(name);
  if (expected !== undefined && expected !== sha256) {
    throw new AppError("object.conflict", `${path} has the SHA-256 ${sha256}, and ${expected} is pinned`, {
      data: { finding: "image-changed", next: "It was not uploaded." },
    });
  }
  // On disk before the platform has it: whoever goes on after a crash uploads the same bytes.
  deps.pin(name, sha256);
  return { name, content, path, sha256 };
}

/** As its source has it now, whatever was used before. */
export async function foundDigest(
  { name, url }: Pick<WantedImage, "name" | "url">,
  deps: Omit<SourceDeps, "pinOf" | "pin" | "leaveUnpinned">,
): Promise<string> {
  // What was unpacked before is not what the archive has now.
  if (deps.cluster.image.archive !== null) await rm(join(deps.work, name), { force: true });
  const path = await localPath(name, url, deps);
  return path === undefined ? deps.digest(await deps.prepare(url)) : digestOf(path);
}

/**
 * Read once from here, so that whoever fetches it can be told what it must be; on disk before anybody is. Where that
 * cannot be done the platform fetches what it is given, and the lock says so.
 */
async function learnt(
  name: string,
  url: string,
  { digest, pinOf, pin, leaveUnpinned, signal }: SourceDeps,
): Promise<string | undefined> {
  const found = await digest(url).catch((err: unknown) => {
    signal?.throwIfAborted();
    return { why: messageOf(err) };
  });
  // Read for another node meanwhile: all are held to one.
  const known = pinOf(name);
  if (known !== undefined) return known;
  if (typeof found === "string") {
    pin(name, found);
    return found;
  }
  leaveUnpinned(name, found.why);
  return undefined;
}

/** undefined: the platform fetches it. */
async function localPath(
  name: string,
  url: string,
  { cluster, folder, work, unpack }: Pick<SourceDeps, "cluster" | "folder" | "work" | "unpack">,
): Promise<string | undefined> {
  const { image } = cluster;
  if (image.archive === null) return offlinePath(image, folder, name);
  const path = join(work, name);
  const sha256 = name === imageFile(cluster, image.arch).name ? image.sha256 : null;
  await unpack({ from: archivePath(folder, url) ?? url, path, sha256 });
  return path;
}

async function digestOf(path: string): Promise<string> {
  const lacking = await offlineProblem(path);
  if (lacking !== undefined) throw new AppError("object.not_found", lacking, { data: MISSING });
  return fileDigest(path);
}

/** undefined: it is fetched over the network. */
export function archivePath(folder: string, url: string): string | undefined {
  if (/^https?:\/\//.test(url)) return undefined;
  return isAbsolute(url) ? url : join(folder, url);
}

const MISSING = { finding: "image-file-missing" } as const;

/** undefined: there is no offline directory. */
export function offlinePath(
  { offlineDir }: Cluster["image"],
  folder: string,
  name: string,
): string | undefined {
  if (offlineDir === null) return undefined;
  return join(isAbsolute(offlineDir) ? offlineDir : join(folder, offlineDir), name);
}

/** Why a file cannot be uploaded; what else of its folder could become it is named. */
export async function offlineProblem(path: string): Promise<string | undefined> {
  const facts = await stat(path).catch(() => undefined);
  if (facts?.isFile() === true) return facts.size === 0 ? `${path} is empty` : undefined;
  const others = await readdir(join(path, "..")).catch(() => undefined);
  if (others === undefined) return `there is no folder for ${path}`;
  const packed = others.filter((name) => /\.(raw|qcow2|iso)(\.(xz|zst|gz))?$/.test(name));
  return `there is no ${basename(path)} in ${join(path, "..")}${packed.length === 0 ? "" : `, only ${packed.slice(0, 5).join(", ")}`}`;
}
