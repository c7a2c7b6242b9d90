// /storage: definitions of the cluster's storages.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { StorageDefinitions } from "../../../application/storage/storage-definitions.ts";

export function createStorageHandlers(deps: { readonly storages: StorageDefinitions }): PveHandlers {
  const { storages } = deps;
  return {
    "GET /storage": ({ type }, ctx) => storages.list(ctx, type),
    "POST /storage": ({ storage, type, ...options }) => storages.create(storage, type, options),
    "GET /storage/{storage}": ({ storage }) => storages.get(storage),
    "PUT /storage/{storage}": ({ storage, delete: remove, digest, ...set }) =>
      storages.update(storage, { set, delete: remove, digest }),
    "DELETE /storage/{storage}": async ({ storage }) => {
      await storages.remove(storage);
      return null;
    },
  };
}
