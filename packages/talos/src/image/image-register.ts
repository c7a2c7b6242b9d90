// What machines upgrade from: a factory is told once what each of their images is made of.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { imageFile } from "./image-file.ts";

export function imageRegister(
  cluster: Cluster,
  prepare: (url: string) => Promise<string>,
): (machine: Pick<Machine, "arch" | "extensions">) => Promise<void> {
  const { image } = cluster;
  const told = new Set<string>();
  return async ({ arch, extensions }) => {
    // Who brings the images himself has no factory to tell.
    if (image.offlineDir !== null) return;
    const { url } = imageFile({ ...cluster, image: { ...image, archive: null } }, arch, extensions);
    if (told.has(url)) return;
    await prepare(url);
    told.add(url);
  };
}
