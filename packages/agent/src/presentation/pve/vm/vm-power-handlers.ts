// PVE's methods that start, stop, pause and resume a VM. What PVE finds out before it forks is refused here; whether
// there is such a VM at all is mostly the task's to say.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { hasLock } from "@gpve/domain/guest/guest-lock.ts";
import { checkSuspendable } from "@gpve/domain/vm/snapshot/suspend.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { stateStorage, type RamVolumePorts } from "../../../application/qemu/snapshot/ram-volume.ts";
import { isDeafToButton, statusOf } from "../../../application/qemu/power/stop-vm.ts";
import {
  badParameter,
  requireRootFor,
  submitVmTask,
  type SubmitVmTask,
} from "../../../application/qemu/request/vm-tasks.ts";
import { requireRunning, runningVm } from "../../../application/qemu/running-vm.ts";

export interface PowerHandlerDeps {
  readonly host: RamVolumePorts;
  readonly engine: OperationEngine;
}

/** Of `start`: what only a migration uses. */
const MIGRATION_OPTIONS = [
  "stateuri",
  "migratedfrom",
  "migration_type",
  "migration_network",
  "targetstorage",
  "with-conntrack-state",
  "nets-host-mtu",
] as const;

export function createPowerHandlers({ host, engine }: PowerHandlerDeps): PveHandlers {
  const submit: SubmitVmTask = (type, vmid, args, ctx) => submitVmTask(engine, type, vmid, args, ctx);
  return {
    "POST /nodes/{node}/qemu/{vmid}/status/start": ({ vmid, skiplock, machine, ...params }, ctx) => {
      const cpu = params["force-cpu"];
      requireRootFor({ skiplock, ...pick(params, MIGRATION_OPTIONS), "force-cpu": cpu }, ctx);
      if (params.targetstorage !== undefined && params.migratedfrom === undefined)
        throw badParameter("targetstorage", "targetstorage can only by used with migratedfrom.");
      if (params.stateuri !== undefined || params.migratedfrom !== undefined)
        throw new AppError(
          "feature.unsupported",
          `cannot start VM ${vmid} for a migration: this node takes no VMs over from others; start it without 'stateuri' and 'migratedfrom'`,
        );
      const args = {
        skiplock: skiplock ?? false,
        ...given({ machine, cpu }),
      };
      return submit("qmstart", vmid, args, ctx);
    },

    "POST /nodes/{node}/qemu/{vmid}/status/stop": ({ vmid, skiplock, keepActive, migratedfrom }, ctx) => {
      requireRootFor({ skiplock, keepActive, migratedfrom }, ctx);
      return submit("qmstop", vmid, { skiplock: skiplock ?? false }, ctx);
    },

    "POST /nodes/{node}/qemu/{vmid}/status/shutdown": async (
      { vmid, skiplock, keepActive, ...more },
      ctx,
    ) => {
      requireRootFor({ skiplock, keepActive }, ctx);
      if (more.forceStop !== true) await refusePaused(host, vmid);
      const args = {
        skiplock: skiplock ?? false,
        forceStop: more.forceStop ?? false,
        ...given({ timeoutSeconds: more.timeout }),
      };
      return submit("qmshutdown", vmid, args, ctx);
    },

    "POST /nodes/{node}/qemu/{vmid}/status/reboot": async ({ vmid, timeout }, ctx) => {
      await refusePaused(host, vmid);
      requireRunning(host, vmid);
      const args = { forceStop: false, ...given({ timeoutSeconds: timeout }) };
      return submit("qmreboot", vmid, args, ctx);
    },

    "POST /nodes/{node}/qemu/{vmid}/status/reset": ({ vmid, skiplock }, ctx) => {
      requireRootFor({ skiplock }, ctx);
      requireRunning(host, vmid);
      return submit("qmreset", vmid, { skiplock: skiplock ?? false }, ctx);
    },

    "POST /nodes/{node}/qemu/{vmid}/status/suspend": ({ vmid, skiplock, todisk, statestorage }, ctx) => {
      requireRootFor({ skiplock }, ctx);
      requireRunning(host, vmid);
      if (todisk !== true) return submit("qmpause", vmid, { skiplock: skiplock ?? false }, ctx);
      ctx.access.require(`/vms/${vmid}`, ["VM.Config.Disk"]);
      const config = host.configs.get(vmid);
      checkSuspendable(config);
      const storage = statestorage ?? stateStorage(host.storages, config.values);
      ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
      host.storages.plugin(storage);
      return submit("qmsuspend", vmid, { skiplock: skiplock ?? false, storage }, ctx);
    },

    "POST /nodes/{node}/qemu/{vmid}/status/resume": ({ vmid, skiplock, nocheck }, ctx) => {
      requireRootFor({ skiplock, nocheck }, ctx);
      const config = host.configs.find(vmid);
      if (config === undefined || !hasLock(config, "suspended")) requireRunning(host, vmid);
      return submit("qmresume", vmid, { skiplock: skiplock ?? false }, ctx);
    },
  };
}

/** A guest that stands still would only see the power button when it goes on. */
async function refusePaused(host: RamVolumePorts, vmid: number): Promise<void> {
  const process = runningVm(host, vmid);
  if (process === undefined) return;
  if (isDeafToButton(await statusOf(process)))
    throw new AppError("object.conflict", "VM is paused - cannot shutdown", { pveStatus: 500 });
}

function pick<T extends object, K extends keyof T>(record: T, keys: readonly K[]): Partial<Pick<T, K>> {
  return Object.fromEntries(keys.map((key) => [key, record[key]])) as Partial<Pick<T, K>>;
}
