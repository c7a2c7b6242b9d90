// /storage: definitions of the cluster's storages.
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StorageDefinitions } from "../../../application/storage/storage-definitions.ts";

export interface StorageHandlerDeps {
  readonly storages: StorageDefinitions;
  /** Tries a new storage on this server's own node. */
  readonly attempt?: (definition: StorageDefinition, ctx: RequestContext) => Promise<void>;
  /** Looks on all nodes whether its directories may be a storage's. */
  readonly checkPlace?: (definition: StorageDefinition, ctx: RequestContext) => Promise<void>;
}

export function createStorageHandlers(deps: StorageHandlerDeps): PveHandlers {
  const { storages } = deps;
  return {
    "GET /storage": ({ type }, ctx) => storages.list(ctx, type),
    "POST /storage": ({ storage, type, ...options }, ctx) =>
      storages.create(storage, type, options, async (definition) => {
        await deps.checkPlace?.(definition, ctx);
        await deps.attempt?.(definition, ctx);
      }),
    "GET /storage/{storage}": ({ storage }) => storages.get(storage),
    "PUT /storage/{storage}": ({ storage, delete: remove, digest, ...set }, ctx) =>
      storages.update(storage, { set, delete: remove, digest }, async (definition) =>
        deps.checkPlace?.(definition, ctx),
      ),
    "DELETE /storage/{storage}": async ({ storage }) => {
      await storages.remove(storage);
      return null;
    },
  };
}
