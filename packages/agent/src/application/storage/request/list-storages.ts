// Requests about the storages of this node: which there are, how they stand, what could be imported from them.
import type { AppError } from "@gpve/contracts/errors.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
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
import { STORAGE_SEEN_WITH } from "@gpve/domain/storage/seen-with.ts";
import { requireVolumeAccess } from "@gpve/domain/storage/volume-access.ts";
import { importMetadata, withFileSizes } from "./import-metadata.ts";
import { askedVolume, type StorageRequestDeps } from "./storage-requests.ts";

export async function listStorages(
  deps: StorageRequestDeps,
  { content, enabled, format, storage, target }: PveParams["GET /nodes/{node}/storage"],
  ctx: RequestContext,
): Promise<readonly object[]> {
  const { storages } = deps;
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
    if (!ctx.access.has(`/storage/${definition.storage}`, STORAGE_SEEN_WITH, "any")) continue;
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
}

export async function storageStatus(deps: StorageRequestDeps, storage: string): Promise<object> {
  const definition = deps.storages.definitions().find((each) => each.storage === storage);
  if (definition === undefined) throw noSuchStorage();
  return statusOf(deps, definition);
}

export async function showImport(
  deps: StorageRequestDeps,
  { storage, volume }: PveParams["GET /nodes/{node}/storage/{storage}/import-metadata"],
  ctx: RequestContext,
): Promise<object> {
  const { plugin, volname, name, facts } = askedVolume(deps, storage, volume);
  requireVolumeAccess(ctx.access, facts);
  if (name.type !== "import") throw storageRefused(`invalid content type '${name.type}'`);
  if (name.format !== "ova" && name.format !== "ovf") throw storageRefused("invalid format");
  const machine = parseOvf(await deps.files.ovfText(await plugin.file(volname), name.name));
  const isArchive = name.format === "ova";
  const disks = isArchive ? machine.disks : await withFileSizes(plugin, machine.disks);
  return importMetadata({ ...machine, disks }, { storage, volname, isArchive });
}

async function statusOf(deps: StorageRequestDeps, definition: StorageDefinition) {
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

function noSuchStorage(): AppError {
  return badStorageParameter("storage", "No such storage.");
}
