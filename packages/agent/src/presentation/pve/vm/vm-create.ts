// Making VMs: by PVE's method, and for /api/v1, which also knows QEMU's microvm machine.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import { requireVolumeAccess } from "@gpve/domain/storage/volume-access.ts";
import { storedCloudinitValues } from "@gpve/domain/vm/cloudinit/cloudinit-settings.ts";
import { readConfigUpdate } from "@gpve/domain/vm/change/config-update.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "../../../application/agent.ts";
import { microvmFiles } from "../../../application/qemu/start/microvm-files.ts";
import { checkStorages, type NewDisksPorts } from "../../../application/qemu/config/new-disks.ts";
import { checkDriveAccess, checkDriveParameters } from "./drive-access.ts";
import { requireAllocate, withPool } from "../backup/restore-request.ts";
import { checkCpuModel, checkedTags, checkPrivileges } from "./key-access.ts";
import { removeVmExtensions, type VmRemoverDeps } from "./vm-remove.ts";
import { submitVmTask } from "./vm-tasks.ts";
import { volumeOf } from "../../../application/guest/guest-storages.ts";
import type { FileFacts } from "@gpve/domain/guest/file-facts.ts";

export interface VmCreatePorts extends NewDisksPorts {
  readonly files: FileFacts;
}

export interface VmMakerDeps {
  readonly host: VmCreatePorts;
  readonly engine: OperationEngine;
}

export interface NewVm {
  readonly vmid: number;
  readonly start: boolean;
  readonly pool?: string | undefined;
  /** Checked by PVE's schema. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly microvm?: Microvm;
}

/** What every request for a new VM is asked first, also one that restores it. */
export function checkNewVmRequest(
  host: VmCreatePorts,
  request: {
    readonly vmid: number;
    readonly start?: boolean | undefined;
    readonly pool?: string | undefined;
    readonly storage?: string | undefined;
    readonly "ha-managed"?: boolean | undefined;
  },
  ctx: RequestContext,
): void {
  const { vmid, pool, storage, start } = request;
  host.configs.requirePool(pool);
  if (storage !== undefined) ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  if (request["ha-managed"] === true) ctx.access.require("/", ["Sys.Console"]);
  if (start === true) withPool(ctx, vmid, pool).access.require(`/vms/${vmid}`, ["VM.PowerMgmt"]);
}

export function submitNewVm({ host, engine }: VmMakerDeps, vm: NewVm, ctx: RequestContext): Promise<string> {
  const { vmid, start, pool, microvm } = vm;
  requireAllocate(vmid, pool, ctx);
  const update = readConfigUpdate(vm.params, { mayBeEmpty: true });
  checkCpuModel(host, update.set);
  checkDriveAccess(host, vmid, update.set, ctx);
  checkStorages(host, update.set);
  checkPrivileges(vmid, undefined, update.set, [], withPool(ctx, vmid, pool));
  checkDriveParameters(host, update.set);
  const values = {
    ...storedCloudinitValues(update.set, {}, host.cloudinit.hashPassword),
    ...checkedTags(host, update.set, undefined, ctx),
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

/** What /api/v1 calls: the parameters of PVE's method, and what PVE has no word for. */
export function createVmExtensions(
  deps: VmMakerDeps & VmRemoverDeps,
): OwnHandlers<
  "POST /gpve/nodes/{node}/virtual-machines" | "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}"
> {
  return {
    ...removeVmExtensions(deps),
    "POST /gpve/nodes/{node}/virtual-machines": async (
      { node, vmid, pool, config, running, microvm },
      ctx,
    ) => {
      const method = methodByKey("POST /nodes/{node}/qemu");
      if (method === undefined) throw new AppError("internal.error", "PVE's method to make VMs is gone");
      const { pool: named = pool, ...keys } = config;
      // Which VM and whose pool was decided on; the configuration has no say in it.
      if (named !== pool)
        throw new AppError("request.invalid", "config.pool is not the pool that was asked for");
      const asked = { ...keys, node, vmid: String(vmid), ...given({ pool }) };
      const valid = requireValidParams(method, asked, { source: "form" }) as Record<string, unknown>;
      const { vmid: number, node: _node, archive, pool: _pool, start: _start, ...params } = valid;
      if (archive !== undefined)
        throw new AppError("request.invalid", "config.archive: backups are restored by their own methods");
      if (microvm !== undefined) await checkMicrovm(deps.host, microvm, ctx);
      checkNewVmRequest(deps.host, { ...params, vmid: number as number, pool, start: running === true }, ctx);
      return submitNewVm(
        deps,
        {
          vmid: number as number,
          start: running === true,
          pool,
          params,
          ...given({ microvm }),
        },
        ctx,
      );
    },
  };
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
