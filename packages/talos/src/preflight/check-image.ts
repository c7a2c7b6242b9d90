// Whether images that are not on the platform yet can be brought there.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { imageFile, imageVolume } from "../image/image-file.ts";
import { archivePath, offlinePath, offlineProblem } from "../image/image-source.ts";
import { error, type Finding } from "./finding-report.ts";

/** Volumes of images by the node that has them, and whether every node has what one has. */
interface ImagesThere {
  readonly images: ReadonlyMap<string, readonly string[]>;
  readonly sharesImages: boolean;
}

/** Names of images that machines need. `machines` are those that are still to be made. */
export function lackingImages(
  cluster: Cluster,
  machines: readonly Machine[],
  { images, sharesImages }: ImagesThere,
): readonly string[] {
  const all = [...images.values()].flat();
  const lacking = machines.flatMap(({ arch, extensions, host }) => {
    const file = imageFile(cluster, arch, extensions);
    const there = sharesImages ? all : (images.get(host) ?? []);
    return there.some((volume) => volume.endsWith(imageVolume("", file))) ? [] : [file.name];
  });
  return [...new Set(lacking)];
}

/** Archives that lie here and are not there. */
export async function checkArchives(
  cluster: Cluster,
  machines: readonly Machine[],
  folder: string,
): Promise<readonly Finding[]> {
  if (cluster.image.archive === null) return [];
  const findings: Finding[] = [];
  for (const arch of new Set(machines.map((machine) => machine.arch))) {
    const path = archivePath(folder, imageFile(cluster, arch).url);
    const problem = path === undefined ? undefined : await offlineProblem(path);
    if (problem !== undefined) findings.push(error("image-file-missing", "image.archive", problem));
  }
  return findings;
}

export async function checkOfflineImages(
  { image }: Cluster,
  names: readonly string[],
  folder: string,
): Promise<readonly Finding[]> {
  if (image.archive !== null) return [];
  const findings: Finding[] = [];
  for (const name of names) {
    const path = offlinePath(image, folder, name);
    const problem = path === undefined ? undefined : await offlineProblem(path);
    if (problem !== undefined) findings.push(error("image-file-missing", name, problem));
  }
  return findings;
}
