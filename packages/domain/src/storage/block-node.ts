// How QEMU reaches bytes: any of its block drivers with the options of that driver.
import { AppError } from "@gpve/contracts/errors.ts";
import type { JsonObject } from "../vm/argv/text/option-text.ts";

/** The layer that reads bytes: `{driver: "file", filename}`, `host_device`, `rbd`, `iscsi`, … */
export type BlockNode = JsonObject & { readonly driver: string; readonly filename?: string };

export type DiskFormat = "raw" | "qcow2" | "vmdk";

export function isDiskFormat(format: string): format is DiskFormat {
  return format === "raw" || format === "qcow2" || format === "vmdk";
}

/** Bytes and what they mean. */
export interface ImageLayer {
  readonly node: BlockNode;
  readonly format: DiskFormat;
}

const OF_THIS_HOST = new Set(["file", "host_device", "host_cdrom"]);

export function fileNode(filename: string): BlockNode & { readonly filename: string } {
  return { driver: "file", filename };
}

/** The file or device of this host that a node is; undefined = it is reached in another way. */
export function hostFile({ driver, filename }: BlockNode): string | undefined {
  return OF_THIS_HOST.has(driver) ? filename : undefined;
}

/** The same for programs that know files only. `use` says what for. */
export function requireHostFile(node: BlockNode, use: string): string {
  const file = hostFile(node);
  if (file !== undefined) return file;
  throw new AppError(
    "feature.unsupported",
    `${use} needs a file or a device of this host, and the volume is reached by QEMU's driver '${node.driver}': use another storage for it`,
    { pveStatus: 500 },
  );
}
