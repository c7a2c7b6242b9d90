// Snippets: files of a storage that a configuration names, as cloud-init's data or as a hook script.
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { volumeOf, type GuestStorages } from "./guest-storages.ts";

export interface SnippetVolumePorts {
  readonly storages: GuestStorages;
}

/** A volume of type snippets, on a storage of this node that has such content; whatever else it names is refused. */
export function requireSnippet(
  host: SnippetVolumePorts,
  volid: string,
): { readonly plugin: StoragePlugin; readonly volname: string } {
  const { plugin, storage, volname } = volumeOf(host, volid);
  if (plugin.parse(volname).type !== "snippets")
    throw storageRefused(`unable to use volume ${volid} - content type needs to be 'snippets'`);
  if (!contentOf(host.storages.definition(storage)).has("snippets"))
    throw storageRefused(`storage '${storage}' does not support content-type 'snippets'`);
  return { plugin, volname };
}
