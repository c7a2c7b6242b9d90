// POST /nodes/{node}/qemu with an archive: who may ask for it, and what it becomes.
import { missing, parameterError, refused } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { requireHostPathAccess } from "@gpve/domain/storage/volume-access.ts";
import { readConfigUpdate } from "@gpve/domain/vm/change/config-update.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { refuseReachingKeys } from "@gpve/domain/vm/change/archived-keys.ts";
import { restoreConfigText } from "@gpve/domain/vm/change/restore-config.ts";
import { restoreRefused, type RestoreArgs } from "../restore/restore-request.ts";
import { knownConfigs, requireFree, type RestoreVmPorts } from "../restore/restore-vm.ts";
import { copyLimit } from "../disk/copy-limits.ts";
import { requireBackup } from "../../guest/backup/require-backup.ts";
import { checkRestoredKeys } from "./key-access.ts";
import { volumeOf } from "../../guest/guest-storages.ts";
import type { FileFacts } from "@gpve/domain/guest/file-facts.ts";

export interface RestoreRequestPorts extends RestoreVmPorts {
  readonly files: FileFacts;
}

export interface RestoreParams {
  readonly vmid: number;
  readonly archive: string;
  readonly storage?: string;
  readonly unique?: boolean;
  readonly force?: boolean;
  readonly start?: boolean | undefined;
  readonly pool?: string;
  readonly bwlimit?: number;
  readonly "live-restore"?: boolean | undefined;
}

/** Of the request itself; no part of the VM. */
const REQUEST_KEYS = new Set([
  "node",
  "vmid",
  "archive",
  "storage",
  "unique",
  "force",
  "start",
  "pool",
  "bwlimit",
  "live-restore",
  "import-working-storage",
  "ha-managed",
]);

/** The right to make this VM: by its id, or by the pool it goes to. */
export function requireAllocate(vmid: number, pool: string | undefined, ctx: RequestContext): void {
  if (ctx.access.has(`/vms/${vmid}`, ["VM.Allocate"])) return;
  if (pool !== undefined && ctx.access.has(`/pool/${pool}`, ["VM.Allocate"])) return;
  throw new AppError("access.denied", "Permission check failed");
}

/** Rights on the pool count for the VM that goes into it. */
export function withPool(ctx: RequestContext, vmid: number, pool: string | undefined): RequestContext {
  if (pool === undefined) return ctx;
  const { access } = ctx;
  const has: typeof access.has = (path, privileges, mode) =>
    (path === `/vms/${vmid}` && access.has(`/pool/${pool}`, privileges, mode)) ||
    access.has(path, privileges, mode);
  return {
    ...ctx,
    access: {
      privileges: (path) => access.privileges(path),
      has,
      require: (path, privileges, mode) => {
        if (!has(path, privileges, mode)) access.require(path, privileges, mode);
      },
    },
  };
}

/** Throws on what PVE refuses before it forks. */
export function restoreArgs(
  host: RestoreRequestPorts,
  storages: readonly string[],
  params: RestoreParams,
  ctx: RequestContext,
): RestoreArgs {
  const { vmid, archive, storage, pool } = params;
  const live = params["live-restore"] ?? false;
  if (live && params.start === true)
    throw parameterError({ start: "cannot specify 'start' with 'live-restore'" });
  checkMayRestore(host, params, ctx);
  const overrides = overridesOf({ ...params });
  requireArchive(host, params, ctx);
  if (params.force === true && host.configs.has(vmid)) requireUnlocked(host, vmid);
  else requireFree(host, vmid);
  const unlimited = ctx.actor !== undefined && isRoot(ctx.actor);
  const bwlimit = restoreLimit(host, params, storages, ctx);
  return {
    vmid,
    archive,
    madeBy: ctx.requestId,
    ...given({ storage }),
    unique: params.unique ?? false,
    force: params.force ?? false,
    start: params.start ?? false,
    live,
    ...given({ pool }),
    bwlimit,
    overrides,
    storages,
    ...(unlimited
      ? {}
      : {
          limited: true,
          allowedStorages: storages.filter((each) => mayAllocate(each, ctx)),
          ownedStorages: storages.filter((each) =>
            ctx.access.has(`/storage/${each}`, ["Datastore.Allocate"]),
          ),
        }),
  };
}

/** Networks and devices that the archive's VM used are asked for again: they are the request's now. */
export function checkArchivedKeys(
  host: RestoreRequestPorts,
  args: RestoreArgs,
  conf: string,
  ctx: RequestContext,
): void {
  const { vmid, unique, overrides } = args;
  const { newMac, newUuid } = host.ids;
  const text = restoreConfigText(conf, { volumes: {}, unique, newMac, newUuid });
  const { values } = parseVmConfig(text, { vmid, digestOf: () => "" });
  checkRestoredKeys(vmid, { ...values, ...overrides }, ctx);
  refuseReachingKeys(vmid, { ...values, ...overrides }, knownConfigs(host, args));
}

function checkMayRestore(host: RestoreRequestPorts, params: RestoreParams, ctx: RequestContext): void {
  const { vmid, storage, pool, force } = params;
  if (storage !== undefined) ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  // Whoever may save a VM may also put it back.
  const overwrites = force === true && host.configs.has(vmid);
  if (overwrites && ctx.access.has(`/vms/${vmid}`, ["VM.Backup"])) return;
  requireAllocate(vmid, pool, ctx);
}

function overridesOf(params: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const config = Object.fromEntries(
    Object.entries(params).filter(([key, value]) => !REQUEST_KEYS.has(key) && value !== undefined),
  );
  const { set } = readConfigUpdate(config, { mayBeEmpty: true });
  for (const key of Object.keys(set).toSorted())
    if (isDriveKey(key)) throw parameterError({ [key]: "option conflicts with option 'archive'" });
  return set;
}

function requireArchive(
  host: RestoreRequestPorts,
  { archive, vmid }: RestoreParams,
  ctx: RequestContext,
): void {
  if (archive === "-") throw refused("pipe requires cli environment");
  let path = archive;
  if (archive.startsWith("/")) requireHostPathAccess(ctx.actor);
  else {
    requireBackup(host, archive, ctx, vmid);
    const { plugin, volname } = volumeOf(host, archive);
    path = plugin.path(volname);
  }
  if (!host.files.exists(path)) throw missing(`can't find file '${archive}'`);
}

function requireUnlocked(host: RestoreRequestPorts, vmid: number): void {
  try {
    checkLock(host.configs.get(vmid));
  } catch (cause) {
    throw new AppError("resource.busy", restoreRefused(vmid, messageOf(cause)), { cause, pveStatus: 500 });
  }
}

/** Of the storage that is read and those that may be written to; 0 = without a limit. */
function restoreLimit(
  host: RestoreRequestPorts,
  { archive, bwlimit, storage }: RestoreParams,
  storages: readonly string[],
  ctx: RequestContext,
): number {
  const from = parseVolumeId(archive)?.storage;
  const to = storage === undefined ? storages : [storage];
  const request = {
    operation: "restore",
    storages: [...(from === undefined ? [] : [from]), ...to],
    wanted: bwlimit,
    access: ctx.access,
  } as const;
  return copyLimit(host, request) ?? 0;
}

function mayAllocate(storage: string, ctx: RequestContext): boolean {
  return ctx.access.has(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
}
