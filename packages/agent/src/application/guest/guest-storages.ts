// Storages of this node as guests use them.
import { hostFile, requireHostFile } from "@gpve/domain/storage/block-node.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { requireVolumeId } from "@gpve/domain/storage/volume-id.ts";

export interface GuestStorages {
  /** Throws `storage 'x' does not exist`, or why it cannot be used on this node. */
  plugin(storage: string): StoragePlugin;
  definition(storage: string): StorageDefinition;
}

/** The file or device of this host that a volume is, usable from now on, for what is no QEMU. */
export async function attachedFile(
  host: { readonly storages: GuestStorages },
  volid: string,
  use: string,
): Promise<string> {
  const { plugin, volname } = volumeOf(host, volid);
  const { node } = await plugin.attach(volname);
  return requireHostFile(node, use);
}

/** The same by name alone, for who takes it from a guest: none where no file of this host is the volume. */
export function fileOf(host: { readonly storages: GuestStorages }, volid: string): readonly string[] {
  const { plugin, volname } = volumeOf(host, volid);
  const path = hostFile(plugin.block(volname).node);
  return path === undefined ? [] : [path];
}

export function volumeOf(
  host: { readonly storages: GuestStorages },
  volid: string,
): { plugin: StoragePlugin; volname: string; storage: string } {
  const { storage, volname } = requireVolumeId(volid);
  return { plugin: host.storages.plugin(storage), volname, storage };
}
