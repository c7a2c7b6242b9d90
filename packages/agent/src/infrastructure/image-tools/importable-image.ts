import { realpath } from "node:fs/promises";
import { fileNode, requireHostFile } from "@gpve/domain/storage/block-node.ts";
import type { ImageSource } from "@gpve/domain/storage/plugin.ts";
import type { ImageTools } from "./image-tools.ts";
import { inspectImage } from "./inspect-image.ts";

/** The image that will be read. One from outside is looked at as a whole first. */
export async function importableImage(
  source: ImageSource,
  tools: ImageTools,
  signal: AbortSignal | undefined,
): Promise<ImageSource> {
  if (!source.fromOutside) return source;
  // Only root names files of the host, and may name them by a link.
  const path = await realpath(requireHostFile(source.node, "importing an image from outside"));
  await inspectImage(path, source.format, { tools, signal, region: source.region });
  const node = source.node.driver === "file" ? fileNode(path) : { ...source.node, filename: path };
  return { ...source, node };
}
