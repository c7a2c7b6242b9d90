// The file of an image: as an Image Factory serves it, or as it is unpacked from an archive of a release.
import { createHash } from "node:crypto";
import type { Cluster } from "../cluster/cluster.ts";
import { schematicId } from "./schematic.ts";

/** The kind of volume that a platform keeps it as. */
export type ImageContent = "import" | "iso";

export interface ImageFile {
  readonly schematic: string;
  /** The same image has the same name wherever it lies. */
  readonly name: string;
  /** Of an archive: where that is, which may be a path. */
  readonly url: string;
  readonly content: ImageContent;
}

type ImageSettings = Pick<Cluster, "image" | "versions">;

/** `extensions` are those of a pool beside the cluster's own. */
export function imageFile(
  { image, versions }: ImageSettings,
  arch: string,
  extensions: readonly string[] = [],
): ImageFile {
  const schematic = schematicId({
    extensions: [...image.extensions, ...extensions],
    kernelArgs: image.kernelArgs,
  });
  const version = versions.talos.replace(/^v?/, "v");
  const content = imageContent(image);
  const { archive } = image;
  if (archive !== null) {
    const url = archive.replaceAll("{version}", version).replaceAll("{arch}", arch);
    const print = createHash("sha256").update(url, "utf8").digest("hex").slice(0, 12);
    return { schematic, name: `talos-${version}-${print}-${image.platform}-${arch}.raw`, url, content };
  }
  const kind = content === "iso" ? "iso" : "qcow2";
  const file = `${image.platform}-${arch}${image.secureboot ? "-secureboot" : ""}.${kind}`;
  const base = image.factory.replace(/\/+$/, "");
  return {
    schematic,
    name: `talos-${version}-${schematic.slice(0, 12)}-${file}`,
    url: `${base}/image/${schematic}/${version}/${file}`,
    content,
  };
}

/** What the file itself says of an image: pools with extensions or an architecture of their own have other images. */
export function ownSum(cluster: ImageSettings, name: string): string | undefined {
  const { sha256, arch, archive } = cluster.image;
  // Of an archive it is the archive's.
  const isOfImage = archive === null && name === imageFile(cluster, arch).name;
  return isOfImage ? (sha256 ?? undefined) : undefined;
}

export const imageContent = ({ boot }: Pick<Cluster["image"], "boot">): ImageContent =>
  boot === "iso" ? "iso" : "import";

/** As the platform names it: "local:import/x.qcow2". */
export const imageVolume = (
  storage: string,
  { content, name }: Pick<ImageFile, "content" | "name">,
): string => `${storage}:${content}/${name}`;
