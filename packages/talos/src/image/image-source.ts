// Where an image's bytes come from: a file of the offline directory, an archive that is unpacked here, else an Image
// Factory. What was used once is held to.
import { readdir, stat } from "node:fs/promises";
import { basename, isAbsolute, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { ImageSource, LocalImage } from "../driver/driver.ts";
import { imageFile } from "./image-file.ts";
import { fileDigest } from "./file-digest.ts";
import type { ArchiveRequest } from "./unpack-archive.ts";

export interface SourceDeps {
  readonly cluster: Pick<Cluster, "image" | "versions">;
  /** Where paths of the file are relative to. */
  readonly folder: string;
  /** SHA-256 of images that were used before, by name. */
  readonly pins: Readonly<Record<string, string>>;
  readonly pin: (name: string, sha256: string) => void;
  /** Makes the image's schematic known; returns from where it is fetched. */
  readonly prepare: (url: string) => Promise<string>;
  /** Where archives are unpacked to. */
  readonly work: string;
  readonly unpack: (request: ArchiveRequest) => Promise<void>;
}

interface WantedImage {
  readonly name: string;
  readonly url: string;
  readonly content: string;
}

export async function imageSource(
  { name, url, content }: WantedImage,
  deps: SourceDeps,
): Promise<ImageSource | LocalImage> {
  const { cluster, folder, pins } = deps;
  const { image } = cluster;
  const isArchive = image.archive !== null;
  // Pools with extensions or an architecture of their own have images of their own.
  const own = name === imageFile(cluster, image.arch).name ? image.sha256 : null;
  // Of an archive the file's own sum is the archive's.
  const expected = isArchive ? pins[name] : (own ?? pins[name]);
  const path = isArchive ? await unpacked(name, url, own, deps) : offlinePath(image, folder, name);
  if (path === undefined) {
    return { name, content, url: await deps.prepare(url), ...given({ sha256: expected }) };
  }
  const lacking = await offlineProblem(path);
  if (lacking !== undefined) throw new AppError("object.not_found", lacking, { data: MISSING });
  const sha256 = await fileDigest(path);
  if (expected !== undefined && expected !== sha256) {
    throw new AppError("object.conflict", `${path} has the SHA-256 ${sha256}, and ${expected} is pinned`, {
      data: { finding: "image-changed", next: "It was not uploaded." },
    });
  }
  // On disk before the platform has it: whoever goes on after a crash uploads the same bytes.
  deps.pin(name, sha256);
  return { name, content, path, sha256 };
}

async function unpacked(
  name: string,
  url: string,
  sha256: string | null,
  { folder, work, unpack }: SourceDeps,
): Promise<string> {
  const path = join(work, name);
  await unpack({ from: archivePath(folder, url) ?? url, path, sha256 });
  return path;
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
