// Changing storage definitions as both faces do it: a place is looked at on every node that would have it, and a new
// storage is tried, before anything is written.
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { attemptStorage, checkStoragePlace } from "./attempt-storage.ts";
import type { StorageDefinitions, StorageOptions } from "./storage-definitions.ts";
import type { StorageSecretValues } from "./storage-secrets.ts";

export interface StorageChecks {
  /** Tries a new storage on this server's own node. */
  readonly attempt: (
    definition: StorageDefinition,
    ctx: RequestContext,
    secrets: StorageSecretValues,
  ) => Promise<void>;
  /** Looks on all nodes whether its directories may be a storage's. */
  readonly checkPlace: (definition: StorageDefinition, ctx: RequestContext) => Promise<void>;
}

export interface StorageChange {
  readonly set: StorageOptions;
  readonly delete: string | undefined;
  readonly digest: string | undefined;
}

type Made = Promise<{ storage: string; type: string }>;

export interface StorageChanges {
  create(storage: string, type: string, options: StorageOptions, ctx: RequestContext): Made;
  update(storage: string, change: StorageChange, ctx: RequestContext): Made;
  remove(storage: string): Promise<void>;
  digest(): string;
}

export function storageChecks(deps: {
  readonly calls: Pick<NodeCalls, "call" | "knows">;
  readonly board: Pick<NodeBoard, "list">;
  readonly localNode: string;
}): StorageChecks {
  const { calls, board, localNode } = deps;
  return {
    attempt: (definition, ctx, secrets) =>
      attemptStorage({ calls, node: localNode }, definition, ctx, secrets),
    checkPlace: (definition, ctx) =>
      checkStoragePlace({ calls, nodes: () => board.list().map(({ node }) => node) }, definition, ctx),
  };
}

export function storageWork(
  storages: Pick<StorageDefinitions, "create" | "update" | "remove" | "digest">,
  checks: StorageChecks,
): StorageChanges {
  return {
    create: (storage, type, options, ctx) =>
      storages.create(
        storage,
        type,
        options,
        async (definition, secrets) => {
          await checks.checkPlace(definition, ctx);
          await checks.attempt(definition, ctx, secrets);
        },
        ctx.requestId,
      ),
    update: (storage, change, ctx) =>
      storages.update(storage, change, async (definition) => checks.checkPlace(definition, ctx)),
    remove: (storage) => storages.remove(storage),
    digest: () => storages.digest(),
  };
}
