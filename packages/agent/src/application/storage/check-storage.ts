// Tries a storage that is about to be defined, for a server that was asked to: what is wrong with it is said before it
// is there.
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import { STORAGE_CHECK_ROUTE } from "@gpve/domain/storage/storage-check.ts";
import type { ExtensionHandler } from "../agent.ts";
import type { NodeStorages } from "./node-storages.ts";

export function createStorageChecks(storages: NodeStorages): Readonly<Record<string, ExtensionHandler>> {
  return {
    [STORAGE_CHECK_ROUTE]: async ({ definition, onlyPlace }, ctx) => {
      ctx.access.require("/storage", ["Datastore.Allocate"]);
      await storages.attempt(storageCollection.decode(definition), { onlyPlace: onlyPlace === true });
      return null;
    },
  };
}
