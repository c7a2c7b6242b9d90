// An image as QEMU's tools take it: every layer by its driver and file, down to the last. Nothing is probed, and what a
// header says of files below it is not followed.
import type { ImageLayer } from "@gpve/domain/storage/plugin.ts";
import type { ToolFile } from "./image-tools.ts";

/** A part of a file that is an image of its own. */
export interface Region {
  readonly offset: number;
  readonly size: number;
}

export interface LayeredImage extends ImageLayer {
  /** Images below it, nearest first, as our records have them. */
  readonly backing?: readonly ImageLayer[];
  readonly region?: Region | undefined;
}

/** Formats whose headers can name an image below. */
const BUILDS_ON_OTHERS = new Set(["qcow2", "vmdk"]);

export function imageName(image: LayeredImage): string {
  return `json:${JSON.stringify(imageNode(image))}`;
}

/** What a tool must see of it. */
export function imageFiles({ path, backing = [] }: LayeredImage, access: "ro" | "rw"): ToolFile[] {
  return [{ path, access }, ...backing.map((below) => ({ path: below.path, access: "ro" as const }))];
}

function imageNode({ path, format, region, backing = [] }: LayeredImage): Record<string, unknown> {
  const [next, ...rest] = backing;
  const file = { driver: "file", filename: path };
  return {
    driver: format,
    file: region === undefined ? file : { driver: "raw", offset: region.offset, size: region.size, file },
    ...(BUILDS_ON_OTHERS.has(format)
      ? { backing: next === undefined ? null : imageNode({ ...next, backing: rest }) }
      : {}),
  };
}
