// Which plugin serves which type of storage. A new type is a line here, its folder, and its name in `implementedTypes`.
import { AppError } from "@gpve/contracts/errors.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { ImplementedType } from "@gpve/domain/storage/storage-types.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { DirPlugin } from "./dir/dir-plugin.ts";
import { LvmThinPlugin } from "./lvmthin/lvmthin-plugin.ts";
import { MountedPlugin, type MountedPluginDeps } from "./mount/mounted-plugin.ts";

/** What any of them may need of this node. */
export type PluginDeps = Omit<MountedPluginDeps, "definition">;

const plugins: Readonly<
  Record<ImplementedType, (definition: StorageDefinition, deps: PluginDeps) => StoragePlugin>
> = {
  dir: (definition, deps) => new DirPlugin({ definition, ...deps }),
  nfs: (definition, deps) => new MountedPlugin({ definition, ...deps }),
  cifs: (definition, deps) => new MountedPlugin({ definition, ...deps }),
  lvmthin: (definition, deps) => new LvmThinPlugin({ definition, ...deps }),
};

export function storagePlugin(definition: StorageDefinition, deps: PluginDeps): StoragePlugin {
  const { type, storage } = definition;
  if (Object.hasOwn(plugins, type)) return plugins[type as ImplementedType](definition, deps);
  throw new AppError(
    "feature.unsupported",
    `storage '${storage}' has type '${type}', which this version does not support`,
  );
}
