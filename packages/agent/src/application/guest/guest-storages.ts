// Storages of this node as guests use them.
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { requireVolumeId } from "@gpve/domain/storage/volume-id.ts";

export interface GuestStorages {
  /** Throws `storage 'x' does not exist`, or why it cannot be used on this node. */
  plugin(storage: string): StoragePlugin;
  definition(storage: string): StorageDefinition;
}

export function volumeOf(
  host: { readonly storages: GuestStorages },
  volid: string,
): { plugin: StoragePlugin; volname: string; storage: string } {
  const { storage, volname } = requireVolumeId(volid);
  return { plugin: host.storages.plugin(storage), volname, storage };
}
