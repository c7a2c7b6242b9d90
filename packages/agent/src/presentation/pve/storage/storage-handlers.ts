// /nodes/{node}/storage: the storages of this node.
import { given } from "@gpve/contracts/given.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { imageFormats, isContentType } from "@gpve/domain/storage/content.ts";
import {
  contentOf,
  contentText,
  isShared,
  servesNode,
  splitStorageList,
  type StorageDefinition,
} from "@gpve/domain/storage/definition.ts";
import { badStorageParameter, storageRefused } from "@gpve/domain/storage/failures.ts";
import { parseOvf } from "@gpve/domain/storage/ovf.ts";
import { parseKeepOptions } from "@gpve/domain/storage/prune.ts";
import { requireVolumeAccess } from "@gpve/domain/storage/volume-access.ts";
import {
  openForPrune,
  planPrune,
  PRUNE_BACKUPS,
  type PruneArgs,
} from "../../../application/storage/remove-volume.ts";
import { requirePruneAccess } from "../../../application/storage/prune-access.ts";
import { importMetadata, withFileSizes } from "./import-metadata.ts";
import { createStorageContentHandlers } from "./storage-content-handlers.ts";
import { submit, volumeOf, type StorageHandlerDeps } from "./storage-requests.ts";

const SEEN_WITH = ["Datastore.Audit", "Datastore.AllocateSpace"];

export function createStorageHandlers(deps: StorageHandlerDeps): PveHandlers {
  const { storages, clock } = deps;
  return {
    ...createStorageContentHandlers(deps),

    "GET /nodes/{node}/storage": async ({ content, enabled, format, storage, target }, ctx) => {
      const wanted = splitStorageList(content);
      const rows = [];
      let found = storage === undefined;
      for (const definition of storages.definitions()) {
        if (storage !== undefined && definition.storage !== storage) continue;
        if (content !== undefined) {
          if (!storages.isEnabled(definition)) continue;
          const has = contentOf(definition);
          if (!wanted.some((each) => isContentType(each) && each !== "none" && has.has(each))) continue;
        }
        found = true;
        if (!ctx.access.has(`/storage/${definition.storage}`, SEEN_WITH, "any")) continue;
        if (enabled === true && definition.options["disable"] === true) continue;
        if (target !== undefined && target !== storages.node && target !== "localhost") {
          if (!isShared(definition)) continue;
          if (!servesNode(definition, storages.node) || !servesNode(definition, target)) continue;
        }
        const row = await statusOf(deps, definition);
        rows.push({
          storage: definition.storage,
          ...row,
          ...(row.total > 0 ? { used_fraction: row.used / row.total } : {}),
          ...(format === true ? formatsOf(definition) : {}),
        });
      }
      if (!found) throw noSuchStorage();
      return rows;
    },

    "GET /nodes/{node}/storage/{storage}/status": async ({ storage }) => {
      const definition = storages.definitions().find((each) => each.storage === storage);
      if (definition === undefined) throw noSuchStorage();
      return statusOf(deps, definition);
    },

    "GET /nodes/{node}/storage/{storage}/identity": ({ storage }) => {
      const { definition } = storages.find(storage);
      return {
        id: `${definition.type}:${String(definition.options["path"] ?? storage)}`,
        type: definition.type,
      };
    },

    "GET /nodes/{node}/storage/{storage}/rrddata": ({ storage, timeframe, cf }) => {
      storages.find(storage);
      return deps.statistics.rows(storage, timeframe, cf ?? "AVERAGE", clock.now());
    },

    "GET /nodes/{node}/storage/{storage}/import-metadata": async ({ storage, volume }, ctx) => {
      const { plugin, volname, name, facts } = volumeOf(deps, storage, volume);
      requireVolumeAccess(ctx.access, facts);
      if (name.type !== "import") throw storageRefused(`invalid content type '${name.type}'`);
      if (name.format !== "ova" && name.format !== "ovf") throw storageRefused("invalid format");
      const machine = parseOvf(await deps.files.ovfText(await plugin.file(volname), name.name));
      const isArchive = name.format === "ova";
      const disks = isArchive ? machine.disks : await withFileSizes(plugin, machine.disks);
      return importMetadata({ ...machine, disks }, { storage, volname, isArchive });
    },

    "GET /nodes/{node}/query-url-metadata": ({ url, ...options }, ctx) =>
      deps.fetcher.facts(url, {
        verifyCertificates: options["verify-certificates"] ?? true,
        signal: ctx.signal,
      }),

    "GET /nodes/{node}/storage/{storage}/prunebackups": async (params) => {
      const args = pruneArgs(params);
      const { plugin, keep } = await openForPrune(storages, args);
      return (await planPrune(plugin, { ...args, keep })).map(({ volid, ctime, mark, type, vmid }) => ({
        volid,
        ctime,
        mark,
        type,
        ...given({ vmid }),
      }));
    },

    "DELETE /nodes/{node}/storage/{storage}/prunebackups": (params, ctx) => {
      const { storage, vmid } = params;
      requirePruneAccess(params, ctx);
      return submit(deps, ctx, {
        type: PRUNE_BACKUPS,
        resources: [`storage/${storage}/prune`],
        args: pruneArgs(params),
        subject: `${vmid === undefined ? "" : `${vmid}@`}${storage}`,
      });
    },
  };
}

async function statusOf(deps: StorageHandlerDeps, definition: StorageDefinition) {
  const { active, total, used, avail } = await deps.storages.status(definition);
  return {
    type: definition.type,
    content: contentText(definition),
    shared: isShared(definition),
    enabled: deps.storages.isEnabled(definition),
    active,
    total,
    used,
    avail,
  };
}

function formatsOf(definition: StorageDefinition): Record<string, unknown> {
  const preferred = definition.options["format"] ?? "raw";
  return { formats: { default: preferred, supported: imageFormats.toSorted() }, select_existing: false };
}

function pruneArgs(params: {
  readonly storage: string;
  readonly vmid?: number;
  readonly type?: GuestType;
  readonly "prune-backups"?: string;
}): PruneArgs {
  const { storage, vmid, type, "prune-backups": keep } = params;
  return {
    storage,
    ...(keep === undefined ? {} : { keep: parseKeepOptions(keep) }),
    ...given({ vmid, type }),
  };
}

function noSuchStorage(): AppError {
  return badStorageParameter("storage", "No such storage.");
}
