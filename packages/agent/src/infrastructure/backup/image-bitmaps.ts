// Dirty bitmaps of images that no QEMU has open, by qemu-img.
import type { ImageBitmap } from "@gpve/domain/backup/backup-ports.ts";
import { fileNode } from "@gpve/domain/storage/block-node.ts";
import { imageFiles, imageName, type LayeredImage } from "../image-tools/image-node.ts";
import type { ImageTools } from "../image-tools/image-tools.ts";

interface Qcow2Info {
  readonly "format-specific"?: {
    readonly data?: {
      readonly bitmaps?: readonly { readonly name: string; readonly flags: readonly string[] }[];
    };
  };
}

/** What lies below an image has nothing to do with its bitmaps. */
function qcow2(path: string): LayeredImage {
  return { node: fileNode(path), format: "qcow2" };
}

export async function imageBitmaps(tools: ImageTools, path: string): Promise<readonly ImageBitmap[]> {
  const image = qcow2(path);
  const argv = ["info", "--output=json", imageName(image)];
  const { stdout } = await tools("qemu-img", argv, imageFiles(image, "ro"));
  const { bitmaps = [] } = (JSON.parse(stdout) as Qcow2Info)["format-specific"]?.data ?? {};
  return bitmaps.map(({ name, flags }) => ({
    name,
    inconsistent: flags.includes("in-use"),
    recording: flags.includes("auto"),
  }));
}

export async function addImageBitmap(
  tools: ImageTools,
  path: string,
  name: string,
  granularity: number,
): Promise<void> {
  const image = qcow2(path);
  const argv = ["bitmap", "--add", "-g", String(granularity), imageName(image), name];
  await tools("qemu-img", argv, imageFiles(image, "rw"));
}

export async function removeImageBitmap(tools: ImageTools, path: string, name: string): Promise<void> {
  const image = qcow2(path);
  await tools("qemu-img", ["bitmap", "--remove", imageName(image), name], imageFiles(image, "rw"));
}
