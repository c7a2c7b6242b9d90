import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { VolumeOwnership } from "@gpve/domain/storage/plugin.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { ImageTools } from "../../image-tools/image-tools.ts";
import type { DirectoryPlace } from "./dir-activation.ts";

export interface DirPluginDeps {
  readonly definition: StorageDefinition;
  readonly exec: Exec;
  /** What works on images. */
  readonly tools: ImageTools;
  /** Civil time of a backup's name as seconds since 1970, in this node's zone. */
  readonly backupTime: (name: string) => number | undefined;
  readonly ownership?: VolumeOwnership;
  readonly mounts?: () => Promise<string>;
  readonly guard: DirectoryPlace["guard"];
}
