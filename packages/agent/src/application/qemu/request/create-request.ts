// One request for a new VM, whoever makes it: PVE's method, /api/v1, an apply. From a backup or anew.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import { requireVolumeAccess } from "@gpve/domain/storage/volume-access.ts";
import { storedCloudinitValues } from "@gpve/domain/vm/cloudinit/cloudinit-settings.ts";
import { readConfigUpdate } from "@gpve/domain/vm/change/config-update.ts";
import { machineDefaults, type NodeDefaults } from "@gpve/domain/vm/spec/vm-defaults.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { microvmFiles } from "../start/microvm-files.ts";
import { checkStorages, type NewDisksPorts } from "../config/new-disks.ts";
import { checkDriveAccess, checkDriveParameters } from "./drive-access.ts";
import {
  checkArchivedKeys,
  requireAllocate,
  restoreArgs,
  withPool,
  type RestoreParams,
  type RestoreRequestPorts,
} from "./restore-checks.ts";
import { checkCpuModel, checkedTags, checkPrivileges } from "./key-access.ts";
import { submitVmTask } from "./vm-tasks.ts";
import { volumeOf } from "../../guest/guest-storages.ts";

export type VmCreatePorts = RestoreRequestPorts & NewDisksPorts;

export interface VmMakerDeps {
  readonly host: VmCreatePorts;
  readonly engine: OperationEngine;
  /** Storages on which a VM's disks may lie. */
  readonly imageStorages: () => readonly string[];
  /** What a VM of this node gets that does not say. */
  readonly defaults: () => NodeDefaults;
  /** The configuration inside a backup, by its volume id. */
  readonly archivedConfig: (archive: string) => Promise<string>;
}

/** The parameters of PVE's method, checked by its schema, and what PVE has no word for. */
export interface NewVmParameters {
  readonly vmid: number;
  readonly start?: boolean | undefined;
  readonly pool?: string | undefined;
  readonly storage?: string | undefined;
  readonly archive?: string | undefined;
  readonly "ha-managed"?: boolean | undefined;
  readonly "live-restore"?: boolean | undefined;
  readonly microvm?: Microvm | undefined;
}

/** Makes the checks that PVE makes before it forks, and answers with the UPID of the task. */
export async function requestNewVm(
  deps: VmMakerDeps,
  request: NewVmParameters,
  ctx: RequestContext,
): Promise<string> {
  const { host } = deps;
  const { vmid, start, pool, storage, archive, microvm, ...params } = request;
  if (microvm !== undefined) await checkMicrovm(host, microvm, ctx);
  host.configs.requirePool(pool);
  if (storage !== undefined) ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  if (request["ha-managed"] === true) ctx.access.require("/", ["Sys.Console"]);
  if (start === true) withPool(ctx, vmid, pool).access.require(`/vms/${vmid}`, ["VM.PowerMgmt"]);
  const keys = { ...params, ...given({ storage, pool }) };
  if (archive !== undefined) return submitRestore(deps, { ...keys, vmid, start, archive }, ctx);
  // An import that shall run meanwhile runs as soon as its disks are there.
  const runs = start === true || request["live-restore"] === true;
  return submitNew(deps, { vmid, start: runs, pool, params: keys, microvm }, ctx);
}

async function submitRestore(
  { host, engine, imageStorages, archivedConfig }: VmMakerDeps,
  params: RestoreParams,
  ctx: RequestContext,
): Promise<string> {
  const { vmid, archive, pool } = params;
  const args = restoreArgs(host, imageStorages(), params, ctx);
  const changed = args.overrides ?? {};
  checkPrivileges(vmid, undefined, changed, [], withPool(ctx, vmid, pool));
  if (ctx.actor === undefined || !isRoot(ctx.actor)) {
    const config = await archivedConfig(archive).catch((err: unknown) =>
      // The task reads it as well, and ends with the reason.
      ignore(err, "what cannot be read cannot be restored"),
    );
    if (config !== undefined) checkArchivedKeys(host, args, config, ctx);
  }
  const overrides = {
    ...storedCloudinitValues(changed, {}, host.cloudinit.hashPassword),
    ...checkedTags(host, changed, undefined, ctx),
  };
  return submitVmTask(engine, "qmrestore", vmid, { ...args, overrides }, ctx);
}

function submitNew(
  { host, engine, defaults }: VmMakerDeps,
  vm: {
    readonly vmid: number;
    readonly start: boolean;
    readonly pool: string | undefined;
    readonly params: Readonly<Record<string, unknown>>;
    readonly microvm: Microvm | undefined;
  },
  ctx: RequestContext,
): Promise<string> {
  const { vmid, start, pool, microvm } = vm;
  requireAllocate(vmid, pool, ctx);
  const asked = readConfigUpdate(vm.params, { mayBeEmpty: true });
  const ofNode = microvm === undefined ? machineDefaults(asked.set, defaults()) : {};
  const set = { ...ofNode, ...asked.set };
  // What everybody gets here is nobody's choice.
  const chosen = Object.fromEntries(Object.entries(set).filter(([key, text]) => ofNode[key] !== text));
  checkCpuModel(host, set);
  checkDriveAccess(host, vmid, set, ctx);
  checkStorages(host, set);
  checkPrivileges(vmid, undefined, chosen, [], withPool(ctx, vmid, pool));
  checkDriveParameters(host, set);
  const values = {
    ...storedCloudinitValues(set, {}, host.cloudinit.hashPassword),
    ...checkedTags(host, set, undefined, ctx),
  };
  host.configs.requireFree(vmid);
  const args = {
    values,
    start,
    madeBy: ctx.requestId,
    ...given({ pool, microvm }),
    ...(vm.params["ha-managed"] === true ? { haManaged: true } : {}),
  };
  return submitVmTask(engine, "qmcreate", vmid, args, ctx);
}

/** Its files must be there, and the caller's to use. */
async function checkMicrovm(host: VmCreatePorts, microvm: Microvm, ctx: RequestContext): Promise<void> {
  for (const volid of [microvm.kernel, ...(microvm.initrd === undefined ? [] : [microvm.initrd])]) {
    const { plugin, storage, volname } = volumeOf(host, volid);
    requireVolumeAccess(ctx.access, { storage, volid, type: plugin.parse(volname).type });
  }
  for (const { path } of (await microvmFiles(host, microvm)).files) {
    if (!host.files.exists(path)) throw new AppError("object.not_found", `there is no file ${path}`);
  }
}
