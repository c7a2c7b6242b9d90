// Requests for a VM's disks: who may make them, what PVE refuses before it forks, and the tasks they become.
import { parameterError, refused } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import type { AccessView, RequestContext } from "@gpve/domain/request/context.ts";
import { contentOf, isShared, servesNode } from "@gpve/domain/storage/definition.ts";
import { parseVolumeId, requireVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { listDrives } from "@gpve/domain/vm/config/drive.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { checkLock, isTemplate } from "@gpve/domain/guest/guest-lock.ts";
import { requireSnapshot } from "@gpve/domain/guest/snapshot/snapshot.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import {
  alreadyCloned,
  checkCloneable,
  cloneStorages,
  sourceValues,
  type CloneArgs,
} from "../disk/clone-vm.ts";
import type { MoveOthers } from "../../guest/move-ports.ts";
import { copyLimit } from "../disk/copy-limits.ts";
import { checkTemplatePossible } from "../disk/make-template.ts";
import { checkMovable, type CheckMovePorts } from "../disk/move-disk.ts";
import { checkReassignable } from "../disk/check-reassign.ts";
import { checkCopiedKeys } from "./key-access.ts";
import { requireRootFor, submitVmTask } from "./vm-tasks.ts";

export interface DiskRequestDeps {
  readonly host: CheckMovePorts & { readonly moves: Pick<MoveOthers, "servers" | "requireOthers"> };
  readonly engine: OperationEngine;
  /** Storages on which a VM's disks may lie. */
  readonly imageStorages: () => readonly string[];
}

export function requestClone(
  { host, engine }: DiskRequestDeps,
  { vmid, newid, full, target, ...params }: PveParams["POST /nodes/{node}/qemu/{vmid}/clone"],
  ctx: RequestContext,
): Promise<string> {
  const { snapname, name, description, storage, format, pool, bwlimit } = params;
  host.configs.requirePool(pool);
  if (storage !== undefined) requireForImages(host, storage);
  const config = host.configs.get(vmid);
  checkLock(config);
  if (snapname !== undefined) requireSnapshot(config, snapname);
  const args = {
    vmid,
    newid,
    madeBy: ctx.requestId,
    full: full ?? !isTemplate(config),
    ...given({ snapname, name, description, storage, format, pool }),
  };
  if (!args.full && storage !== undefined) throw refused("parameter 'storage' not allowed for linked clones");
  if (!args.full && format !== undefined) throw refused("parameter 'format' not allowed for linked clones");
  for (const id of cloneStorages(config, args))
    ctx.access.require(`/storage/${id}`, ["Datastore.AllocateSpace"]);
  checkCopiedKeys(vmid, sourceValues(config, args), ctx);
  const elsewhere = target === host.configs.node || target === "localhost" ? undefined : target;
  if (elsewhere !== undefined) requireEverywhere(host, config, args, elsewhere);
  if (host.configs.isTaken(newid)) throw alreadyCloned(newid);
  checkCloneable(host, args, config);
  const limits = cloneLimits(host, config, args, bwlimit, ctx.access);
  // A template changes under nobody's hands: its clones need not wait for each other.
  const reads = isTemplate(config);
  return submitVmTask(
    engine,
    "qmclone",
    vmid,
    { ...args, limits, ...given({ target: elsewhere }) },
    ctx,
    [newid],
    undefined,
    reads,
  );
}

/** What is made here is then the other node's: both must have all that it reads. */
function requireEverywhere(
  host: DiskRequestDeps["host"],
  config: VmConfig,
  args: Pick<CloneArgs, "snapname"> & { readonly storage?: string | undefined },
  target: string,
): void {
  host.moves.requireOthers?.(target);
  const read = listDrives(sourceValues(config, args)).flatMap(
    ({ drive }) => parseVolumeId(drive.file)?.storage ?? [],
  );
  for (const storage of new Set([...read, ...cloneStorages(config, args)])) {
    const definition = host.storages.definition(storage);
    if (!isShared(definition)) throw refused(`can't clone VM to node '${target}' (VM uses local storage)`);
    if (!servesNode(definition, target))
      throw refused(`storage '${storage}' is not available on node '${target}'`);
  }
}

export function requestTemplate(
  { host, engine }: DiskRequestDeps,
  { vmid, disk }: PveParams["POST /nodes/{node}/qemu/{vmid}/template"],
  ctx: RequestContext,
): Promise<string> {
  const args = { vmid, ...given({ disk }) };
  checkTemplatePossible(host, args);
  return submitVmTask(engine, "qmtemplate", vmid, args, ctx);
}

export function requestResize(
  { engine, imageStorages }: DiskRequestDeps,
  { vmid, disk, size, digest, skiplock }: PveParams["PUT /nodes/{node}/qemu/{vmid}/resize"],
  ctx: RequestContext,
): Promise<string> {
  requireRootFor({ skiplock }, ctx);
  const storages = imageStorages();
  const allowed = storages.filter((id) => ctx.access.has(`/storage/${id}`, ["Datastore.AllocateSpace"]));
  const args = {
    disk,
    size,
    skiplock: skiplock ?? false,
    ...given({ digest }),
    ...(allowed.length === storages.length ? {} : { allowedStorages: allowed }),
  };
  return submitVmTask(engine, "resize", vmid, args, ctx);
}

export function requestMove(
  { host, engine }: DiskRequestDeps,
  { vmid, disk, storage, format, digest, ...more }: PveParams["POST /nodes/{node}/qemu/{vmid}/move_disk"],
  ctx: RequestContext,
): Promise<string> {
  const targetVmid = more["target-vmid"];
  if (targetVmid !== undefined && storage !== undefined)
    throw bothParameters("either set 'storage' or 'target-vmid', but not both");
  if (targetVmid !== undefined) {
    ctx.access.require(`/vms/${targetVmid}`, ["VM.Config.Disk"]);
    if (targetVmid === vmid)
      throw parameterError({ "target-vmid": "must be different than source VMID to reassign disk" });
    const targetDisk = more["target-disk"] ?? disk;
    const targetDigest = more["target-digest"];
    const args = {
      vmid,
      disk,
      targetVmid,
      targetDisk,
      ...given({ digest, targetDigest }),
    };
    const { file } = checkReassignable(host, args);
    ctx.access.require(`/storage/${requireVolumeId(file).storage}`, ["Datastore.AllocateSpace"]);
    const subject = `${vmid}-${disk}>${targetVmid}-${targetDisk}`;
    return submitVmTask(engine, "qmmove", vmid, args, ctx, [targetVmid], subject);
  }
  if (storage === undefined)
    throw bothParameters("both 'storage' and 'target-vmid' missing, either needs to be set");
  ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  const args = {
    vmid,
    disk,
    storage,
    remove: more.delete ?? false,
    ...given({ format, digest }),
  };
  const { file } = checkMovable(host, args);
  const limit = copyLimit(host, {
    operation: "move",
    storages: [requireVolumeId(file).storage, storage],
    wanted: more.bwlimit,
    access: ctx.access,
  });
  const limited = limit === undefined ? args : { ...args, bwlimit: limit };
  return submitVmTask(engine, "qmmove", vmid, limited, ctx);
}

function requireForImages(host: CheckMovePorts, storage: string): void {
  host.storages.plugin(storage);
  if (!contentOf(host.storages.definition(storage)).has("images"))
    throw parameterError({ storage: `storage '${storage}' does not support vm images` });
}

function bothParameters(message: string): AppError {
  return parameterError({ "target-vmid": message, storage: message });
}

/** By the storage that is read. */
function cloneLimits(
  host: CheckMovePorts,
  config: VmConfig,
  args: CloneArgs,
  wanted: number | undefined,
  access: AccessView,
): Record<string, number> {
  const limits: Record<string, number> = {};
  for (const source of cloneStorages(config, { ...args, storage: undefined })) {
    const storages = [source, args.storage ?? source];
    const limit = copyLimit(host, { operation: "clone", storages, wanted, access });
    if (limit !== undefined) limits[source] = limit;
  }
  return limits;
}
