import type { VolumeName } from "@gpve/domain/storage/volume-name.ts";
import type { StorageFeature } from "@gpve/domain/storage/plugin.ts";

/** What can be done with a volume of a directory storage, or with one of its snapshots. */
export function dirHas(
  feature: StorageFeature,
  { type, format, isBase }: VolumeName,
  snapshot: string | undefined,
): boolean {
  const current = snapshot === undefined;
  if (type !== "images") return feature === "copy" && current;
  switch (feature) {
    case "snapshot":
      return format === "qcow2" && current && !isBase;
    case "clone":
      return isBase && format !== "subvol" && current;
    case "copy":
      return current || (format === "qcow2" && !isBase);
    case "template":
      return format !== "subvol" && !isBase && current;
    case "sparseinit":
      return format !== "subvol" && current;
    case "resize":
      return current && !isBase && format !== "vmdk" && format !== "subvol";
    case "rename":
      return current && !isBase;
    case "replicate":
      return current && !isBase && (format === "qcow2" || format === "raw");
  }
}
