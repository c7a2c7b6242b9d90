// The file of an image as an Image Factory serves it.
import type { Cluster } from "../cluster/cluster.ts";
import { schematicId } from "./schematic.ts";

export interface ImageFile {
  readonly schematic: string;
  /** The same image has the same name wherever it lies. */
  readonly name: string;
  readonly url: string;
}

/** `extensions` are those of a pool beside the cluster's own. */
export function imageFile(
  { image, versions }: Pick<Cluster, "image" | "versions">,
  arch: string,
  extensions: readonly string[] = [],
): ImageFile {
  const schematic = schematicId({
    extensions: [...image.extensions, ...extensions],
    kernelArgs: image.kernelArgs,
  });
  const version = versions.talos.replace(/^v?/, "v");
  const file = `${image.platform}-${arch}${image.secureboot ? "-secureboot" : ""}.qcow2`;
  const base = image.factory.replace(/\/+$/, "");
  return {
    schematic,
    name: `talos-${version}-${schematic.slice(0, 12)}-${file}`,
    url: `${base}/image/${schematic}/${version}/${file}`,
  };
}
