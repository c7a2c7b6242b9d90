// Requests to start, stop, pause and resume a VM. What PVE finds out before it forks is refused here; whether
// there is such a VM at all is mostly the task's to say.
import { conflict, parameterError } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { hasLock } from "@gpve/domain/guest/guest-lock.ts";
import { checkSuspendable } from "@gpve/domain/vm/snapshot/suspend.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { stateStorage, type RamVolumePorts } from "../snapshot/ram-volume.ts";
import { isDeafToButton, statusOf } from "../power/stop-vm.ts";
import { requireRootFor, submitVmTask } from "./vm-tasks.ts";
import { requireRunningVm, runningVm } from "../running-vm.ts";

export interface PowerRequestDeps {
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

export function requestStart(
  { engine }: PowerRequestDeps,
  { vmid, skiplock, machine, ...params }: PveParams["POST /nodes/{node}/qemu/{vmid}/status/start"],
  ctx: RequestContext,
): Promise<string> {
  const cpu = params["force-cpu"];
  requireRootFor({ skiplock, ...pick(params, MIGRATION_OPTIONS), "force-cpu": cpu }, ctx);
  if (params.targetstorage !== undefined && params.migratedfrom === undefined)
    throw parameterError({ targetstorage: "targetstorage can only by used with migratedfrom." });
  if (params.stateuri !== undefined || params.migratedfrom !== undefined)
    throw new AppError(
      "feature.unsupported",
      `cannot start VM ${vmid} for a migration: this node takes no VMs over from others; start it without 'stateuri' and 'migratedfrom'`,
    );
  const args = {
    skiplock: skiplock ?? false,
    ...given({ machine, cpu }),
  };
  return submitVmTask(engine, "qmstart", vmid, args, ctx);
}

export function requestStop(
  { engine }: PowerRequestDeps,
  { vmid, skiplock, keepActive, migratedfrom }: PveParams["POST /nodes/{node}/qemu/{vmid}/status/stop"],
  ctx: RequestContext,
): Promise<string> {
  requireRootFor({ skiplock, keepActive, migratedfrom }, ctx);
  return submitVmTask(engine, "qmstop", vmid, { skiplock: skiplock ?? false }, ctx);
}

export async function requestShutdown(
  { host, engine }: PowerRequestDeps,
  { vmid, skiplock, keepActive, ...more }: PveParams["POST /nodes/{node}/qemu/{vmid}/status/shutdown"],
  ctx: RequestContext,
): Promise<string> {
  requireRootFor({ skiplock, keepActive }, ctx);
  if (more.forceStop !== true) await refusePaused(host, vmid);
  const args = {
    skiplock: skiplock ?? false,
    forceStop: more.forceStop ?? false,
    ...given({ timeoutSeconds: more.timeout }),
  };
  return submitVmTask(engine, "qmshutdown", vmid, args, ctx);
}

export async function requestReboot(
  { host, engine }: PowerRequestDeps,
  { vmid, timeout }: PveParams["POST /nodes/{node}/qemu/{vmid}/status/reboot"],
  ctx: RequestContext,
): Promise<string> {
  await refusePaused(host, vmid);
  requireRunningVm(host, vmid);
  const args = { forceStop: false, ...given({ timeoutSeconds: timeout }) };
  return submitVmTask(engine, "qmreboot", vmid, args, ctx);
}

export function requestReset(
  { host, engine }: PowerRequestDeps,
  { vmid, skiplock }: PveParams["POST /nodes/{node}/qemu/{vmid}/status/reset"],
  ctx: RequestContext,
): Promise<string> {
  requireRootFor({ skiplock }, ctx);
  requireRunningVm(host, vmid);
  return submitVmTask(engine, "qmreset", vmid, { skiplock: skiplock ?? false }, ctx);
}

export function requestSuspend(
  { host, engine }: PowerRequestDeps,
  { vmid, skiplock, todisk, statestorage }: PveParams["POST /nodes/{node}/qemu/{vmid}/status/suspend"],
  ctx: RequestContext,
): Promise<string> {
  requireRootFor({ skiplock }, ctx);
  requireRunningVm(host, vmid);
  if (todisk !== true) return submitVmTask(engine, "qmpause", vmid, { skiplock: skiplock ?? false }, ctx);
  ctx.access.require(`/vms/${vmid}`, ["VM.Config.Disk"]);
  const config = host.configs.get(vmid);
  checkSuspendable(config);
  const storage = statestorage ?? stateStorage(host.storages, config.values);
  ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  host.storages.plugin(storage);
  return submitVmTask(engine, "qmsuspend", vmid, { skiplock: skiplock ?? false, storage }, ctx);
}

export function requestResume(
  { host, engine }: PowerRequestDeps,
  { vmid, skiplock, nocheck }: PveParams["POST /nodes/{node}/qemu/{vmid}/status/resume"],
  ctx: RequestContext,
): Promise<string> {
  requireRootFor({ skiplock, nocheck }, ctx);
  const config = host.configs.find(vmid);
  if (config === undefined || !hasLock(config, "suspended")) requireRunningVm(host, vmid);
  return submitVmTask(engine, "qmresume", vmid, { skiplock: skiplock ?? false }, ctx);
}

/** A guest that stands still would only see the power button when it goes on. */
async function refusePaused(host: RamVolumePorts, vmid: number): Promise<void> {
  const process = runningVm(host, vmid);
  if (process === undefined) return;
  if (isDeafToButton(await statusOf(process))) throw conflict("VM is paused - cannot shutdown");
}

function pick<T extends object, K extends keyof T>(record: T, keys: readonly K[]): Partial<Pick<T, K>> {
  return Object.fromEntries(keys.map((key) => [key, record[key]])) as Partial<Pick<T, K>>;
}
