// What an image builds on, by our records. A guest can write its own header, so that only confirms what the volume's name
// says already; base images were looked at when they became read-only, and name base images only.
import { join } from "node:path";
import { fileNode, isDiskFormat, type DiskFormat, type ImageLayer } from "@gpve/domain/storage/block-node.ts";
import { parseImageName } from "@gpve/domain/storage/dir-volume.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import { refuseReferences } from "../../image-tools/inspect-image.ts";
import { volumeFile } from "./volume-file.ts";

const MAX_LAYERS = 64;
/** As a base image names the one below it: base images lie beside each other. */
const BASE_NAME = /^\.\.\/(?<vmid>[1-9]\d*)\/(?<name>base-[^/]+)$/;

/** As an image names its base, from its own folder. */
export function baseReference(base: { readonly vmid: number; readonly name: string }): string {
  return `../${base.vmid}/${base.name}`;
}

/** The images below, nearest first. Throws when the image, or one below, names another file. */
export async function imagesBelow(
  folder: string,
  image: { readonly path: string; readonly format: DiskFormat },
  base: { readonly vmid: number; readonly name: string } | undefined,
): Promise<ImageLayer[]> {
  const layers: ImageLayer[] = [];
  const expected = base === undefined ? undefined : baseReference(base);
  let named = await refuseReferences(image.path, image.format, {
    isExpected: (file) => file === expected,
  });
  while (named !== undefined) {
    if (layers.length >= MAX_LAYERS) throw storageRefused(`${image.path} builds on too many images`);
    const below = layerOf(folder, named);
    await volumeFile({ type: "images", folder, path: below.path });
    layers.push({ node: fileNode(below.path), format: below.format });
    named = await refuseReferences(below.path, below.format, { isExpected: (file) => BASE_NAME.test(file) });
  }
  return layers;
}

function layerOf(folder: string, named: string): { readonly path: string; readonly format: DiskFormat } {
  const { vmid = "", name = "" } = BASE_NAME.exec(named)?.groups ?? {};
  const format = parseImageName(name)?.format ?? "";
  if (!isDiskFormat(format)) throw storageRefused(`'${named}' is no base image`);
  return { path: join(folder, vmid, name), format };
}
