// An image as QEMU's tools take it: every layer by its driver and file, down to the last. Nothing is probed, and what a
// header says of files below it is not followed.
import { hostFile, type ImageLayer } from "@gpve/domain/storage/block-node.ts";
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
export function imageFiles({ node, backing = [] }: LayeredImage, access: "ro" | "rw"): ToolFile[] {
  return [toolFile(node, access), ...backing.map((below) => toolFile(below.node, "ro"))].flat();
}

function toolFile(node: ImageLayer["node"], access: "ro" | "rw"): ToolFile[] {
  const path = hostFile(node);
  return path === undefined ? [] : [{ path, access }];
}

function imageNode({ node: file, format, region, backing = [] }: LayeredImage): Record<string, unknown> {
  const [next, ...rest] = backing;
  return {
    driver: format,
    file: region === undefined ? file : { driver: "raw", offset: region.offset, size: region.size, file },
    ...(BUILDS_ON_OTHERS.has(format)
      ? { backing: next === undefined ? null : imageNode({ ...next, backing: rest }) }
      : {}),
  };
}
