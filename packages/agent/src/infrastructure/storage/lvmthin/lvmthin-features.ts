import type { StorageFeature } from "@gpve/domain/storage/plugin.ts";
import type { VolumeName } from "@gpve/domain/storage/volume-name.ts";

/** What can be done with a thin volume, or with one of its snapshots. */
export function lvmThinHas(
  feature: StorageFeature,
  { isBase }: VolumeName,
  snapshot: string | undefined,
): boolean {
  const isCurrent = snapshot === undefined;
  switch (feature) {
    case "snapshot":
    case "template":
    case "resize":
    case "rename":
      return isCurrent && !isBase;
    case "clone":
      return isCurrent && isBase;
    case "copy":
      return true;
    case "sparseinit":
      return isCurrent;
    case "replicate":
      return isCurrent && !isBase;
  }
}
