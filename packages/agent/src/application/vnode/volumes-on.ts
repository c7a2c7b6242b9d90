// Storages of this node as places for persistent volumes of virtual clusters.
import type { NodeStorages } from "../storage/node-storages.ts";

/** Answers with the folder, when the storage is ready; throws why it cannot be used here. */
export function volumesOn(storages: Pick<NodeStorages, "open">): (storage: string) => Promise<string> {
  return async (storage) => (await storages.open(storage, "volumes")).plugin.volumesFolder();
}
