// Tries a storage that is about to be defined, for a server that was asked to: what is wrong with it is said before it
// is there.
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import type { OwnHandlers } from "../agent.ts";
import type { NodeStorages } from "./node-storages.ts";

export function createStorageChecks(
  storages: NodeStorages,
): OwnHandlers<"POST /gpve/nodes/{node}/storage-checks"> {
  return {
    "POST /gpve/nodes/{node}/storage-checks": async ({ definition, onlyPlace }, ctx) => {
      ctx.access.require("/storage", ["Datastore.Allocate"]);
      await storages.attempt(storageCollection.decode(definition), { onlyPlace: onlyPlace === true });
      return null;
    },
  };
}
