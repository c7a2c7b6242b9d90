// Tries a storage that is about to be defined, for a server that was asked to: what is wrong with it is said before it
// is there.
import { given } from "@gpve/contracts/given.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import type { OwnHandlers } from "../agent.ts";
import type { NodeStorages } from "./node-storages.ts";

export function createStorageChecks(
  storages: NodeStorages,
): OwnHandlers<"POST /gpve/nodes/{node}/storage-checks"> {
  return {
    "POST /gpve/nodes/{node}/storage-checks": async ({ definition, onlyPlace, secrets }, ctx) => {
      ctx.access.require("/storage", ["Datastore.Allocate"]);
      const wanted = storageCollection.decode(definition);
      await storages.attempt(wanted, { onlyPlace: onlyPlace === true, ...given({ secrets }) });
      return null;
    },
  };
}
