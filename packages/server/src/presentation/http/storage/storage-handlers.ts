// /storage: definitions of the cluster's storages.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { storageWork, type StorageChecks } from "../../../application/storage/storage-work.ts";
import type { StorageDefinitions } from "../../../application/storage/storage-definitions.ts";

export interface StorageHandlerDeps extends StorageChecks {
  readonly storages: StorageDefinitions;
}

export function createStorageHandlers(deps: StorageHandlerDeps): PveHandlers {
  const { storages } = deps;
  const work = storageWork(storages, deps);
  return {
    "GET /storage": ({ type }, ctx) => storages.list(ctx, type),
    "POST /storage": ({ storage, type, ...options }, ctx) => work.create(storage, type, options, ctx),
    "GET /storage/{storage}": ({ storage }) => storages.get(storage),
    "PUT /storage/{storage}": ({ storage, delete: remove, digest, ...set }, ctx) =>
      work.update(storage, { set, delete: remove, digest }, ctx),
    "DELETE /storage/{storage}": async ({ storage }) => {
      await work.remove(storage);
      return null;
    },
  };
}
