// PVE's methods for the life of a VM. Checks that PVE makes before it forks are made here; the rest is the task's.
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { storedCloudinitValues } from "@gpve/domain/vm/cloudinit/cloudinit-settings.ts";
import { checkDigest, readConfigUpdate } from "@gpve/domain/vm/config-update.ts";
import { checkLock } from "@gpve/domain/vm/lock.ts";
import { effectiveValues } from "@gpve/domain/vm/pending.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { checkDestroyable } from "../../application/vm/destroy-vm.ts";
import { checkStorages } from "../../application/vm/new-disks.ts";
import { updateVmConfig } from "../../application/vm/update-config.ts";
import type { VmHost } from "../../application/vm/vm-host.ts";
import { checkDriveAccess } from "./drive-access.ts";
import { createDiskHandlers } from "./vm-disk-handlers.ts";
import { createPowerHandlers } from "./vm-power-handlers.ts";
import { createSnapshotHandlers } from "./vm-snapshot-handlers.ts";
import { restoreArgs, withPool } from "./restore-request.ts";
import { checkPrivileges, submitNewVm } from "./vm-create.ts";
import { requireRootFor, submitVmTask, vmKey, vmLock, type SubmitVmTask } from "./vm-tasks.ts";
import { vmStatus } from "../../application/vm/vm-status.ts";

export interface VmHandlerDeps {
  readonly host: VmHost;
  readonly engine: OperationEngine;
  readonly sampled: (vmid: number) => GuestRuntime | undefined;
  /** Storages on which a VM's disks may lie. */
  readonly imageStorages: () => readonly string[];
}

export function createVmHandlers(deps: VmHandlerDeps): PveHandlers {
  const { host, engine } = deps;

  const submit: SubmitVmTask = (type, vmid, args, ctx) => submitVmTask(engine, type, vmid, args, ctx);

  return {
    ...createSnapshotHandlers(deps),
    ...createDiskHandlers(deps),
    ...createPowerHandlers(deps),
    "POST /nodes/{node}/qemu": async ({ vmid, start, archive, ...params }, ctx) => {
      host.configs.requirePool(params.pool);
      if (archive !== undefined) {
        const args = restoreArgs(host, deps.imageStorages(), { ...params, vmid, start, archive }, ctx);
        checkPrivileges(vmid, {}, args.overrides ?? {}, [], withPool(ctx, vmid, params.pool));
        const overrides = storedCloudinitValues(args.overrides ?? {}, {}, host.cloudinit.hashPassword);
        return submit("qmrestore", vmid, { ...args, overrides }, ctx);
      }
      return submitNewVm(deps, { vmid, start: start ?? false, pool: params.pool, params }, ctx);
    },

    "DELETE /nodes/{node}/qemu/{vmid}": (
      { vmid, skiplock, purge, "destroy-unreferenced-disks": unreferenced },
      ctx,
    ) => {
      requireRootFor({ skiplock }, ctx);
      checkDestroyable(host, vmid);
      const args = {
        skiplock: skiplock ?? false,
        purge: purge ?? false,
        destroyUnreferenced: unreferenced ?? false,
        storages: deps.imageStorages(),
      };
      return submit("qmdestroy", vmid, args, ctx);
    },

    "PUT /nodes/{node}/qemu/{vmid}/config": async ({ vmid, ...params }, ctx) => {
      const update = checkedUpdate(host, vmid, params, ctx);
      const log = (line: string): void => ctx.log.info({ resource: `qemu/${vmid}` }, line);
      await engine.withResource(vmKey(vmid), vmLock(vmid, ctx.signal), () =>
        updateVmConfig(host, vmid, update, { signal: ctx.signal, log }),
      );
      return null;
    },

    "PUT /nodes/{node}/qemu/{vmid}/unlink": async ({ vmid, idlist, force }, ctx) => {
      const update = checkedUpdate(host, vmid, { delete: idlist, force: force ?? false }, ctx);
      const log = (line: string): void => ctx.log.info({ resource: `qemu/${vmid}` }, line);
      await engine.withResource(vmKey(vmid), vmLock(vmid, ctx.signal), () =>
        updateVmConfig(host, vmid, update, { signal: ctx.signal, log }),
      );
      return null;
    },

    "POST /nodes/{node}/qemu/{vmid}/config": ({ vmid, background_delay: _delay, ...params }, ctx) => {
      const update = checkedUpdate(host, vmid, params, ctx);
      const config = host.configs.get(vmid);
      checkDigest(config, update.digest);
      checkLock(config);
      return submit("qmconfig", vmid, { update }, ctx);
    },

    "GET /nodes/{node}/qemu/{vmid}/status/current": ({ vmid }) => vmStatus(host, vmid, deps.sampled(vmid)),
  };
}

function checkedUpdate(
  host: VmHost,
  vmid: number,
  params: Readonly<Record<string, unknown>>,
  ctx: RequestContext,
) {
  const config = host.configs.get(vmid);
  const update = readConfigUpdate(params);
  requireRootFor({ skiplock: update.skiplock }, ctx);
  checkPrivileges(vmid, effectiveValues(config), update.set, [...update.delete, ...update.revert], ctx);
  checkDriveAccess(host, vmid, update.set, ctx);
  checkStorages(host, update.set);
  const set = storedCloudinitValues(update.set, effectiveValues(config), host.cloudinit.hashPassword);
  return { ...update, set };
}
