// PVE's methods for the life of a VM. Checks that PVE makes before it forks are made here; the rest is the task's.
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { DestroyVmPorts } from "../../../application/qemu/config/destroy-vm.ts";
import { updateVmConfig, type UpdateConfigPorts } from "../../../application/qemu/config/update-config.ts";
import { checkedUpdate } from "../../../application/qemu/request/config-request.ts";
import { createDiskHandlers } from "./vm-disk-handlers.ts";
import { createPowerHandlers } from "./vm-power-handlers.ts";
import { createSnapshotHandlers } from "./vm-snapshot-handlers.ts";
import {
  requestNewVm,
  type VmMakerDeps,
  type VmCreatePorts,
} from "../../../application/qemu/request/create-request.ts";
import { submitRemoval } from "../../../application/qemu/request/remove-request.ts";
import {
  submitVmTask,
  vmKey,
  vmLock,
  type SubmitVmTask,
} from "../../../application/qemu/request/vm-tasks.ts";
import { vmStatus } from "../../../application/qemu/figures/vm-status.ts";

export type VmHandlersPorts = UpdateConfigPorts & VmCreatePorts & DestroyVmPorts;

export interface VmHandlerDeps {
  readonly host: VmHandlersPorts;
  readonly engine: OperationEngine;
  readonly sampled: (vmid: number) => GuestRuntime | undefined;
  /** Storages on which a VM's disks may lie. */
  readonly imageStorages: () => readonly string[];
  readonly defaults?: NonNullable<VmMakerDeps["defaults"]>;
  /** The configuration inside a backup, by its volume id. */
  readonly archivedConfig: (archive: string) => Promise<string>;
}

export function createVmHandlers(deps: VmHandlerDeps): PveHandlers {
  const { host, engine } = deps;

  const submit: SubmitVmTask = (type, vmid, args, ctx) => submitVmTask(engine, type, vmid, args, ctx);

  const changeNow = async (
    vmid: number,
    params: Readonly<Record<string, unknown>>,
    ctx: RequestContext,
  ): Promise<null> => {
    const update = checkedUpdate(host, vmid, params, ctx);
    const log = (line: string): void => ctx.log.info({ resource: `qemu/${vmid}` }, line);
    await engine.withResource(vmKey(vmid), vmLock(vmid, ctx.signal), () =>
      updateVmConfig(host, vmid, update, { signal: ctx.signal, log }),
    );
    return null;
  };

  return {
    ...createSnapshotHandlers(deps),
    ...createDiskHandlers(deps),
    ...createPowerHandlers(deps),
    "POST /nodes/{node}/qemu": ({ node: _node, ...request }, ctx) => requestNewVm(deps, request, ctx),

    "DELETE /nodes/{node}/qemu/{vmid}": (
      { vmid, skiplock, purge, "destroy-unreferenced-disks": unreferenced },
      ctx,
    ) => {
      const wanted = { skiplock: skiplock ?? false, purge: purge ?? false };
      return submitRemoval(deps, { vmid, ...wanted, destroyUnreferenced: unreferenced ?? false }, ctx);
    },

    "PUT /nodes/{node}/qemu/{vmid}/config": ({ vmid, ...params }, ctx) => changeNow(vmid, params, ctx),

    "PUT /nodes/{node}/qemu/{vmid}/unlink": ({ vmid, idlist, force }, ctx) =>
      changeNow(vmid, { delete: idlist, force: force ?? false }, ctx),

    "POST /nodes/{node}/qemu/{vmid}/config": async ({ vmid, background_delay: delay, ...params }, ctx) => {
      const update = checkedUpdate(host, vmid, params, ctx);
      const upid = await submit("qmconfig", vmid, { update }, ctx);
      return delay === undefined ? upid : endedWithin(deps, vmid, upid, delay, ctx);
    },

    "GET /nodes/{node}/qemu/{vmid}/status/current": ({ vmid }) => vmStatus(host, vmid, deps.sampled(vmid)),
  };
}

/** Nothing when the task ends well in time; its UPID while it goes on. */
async function endedWithin(
  { engine, host }: VmHandlerDeps,
  vmid: number,
  upid: string,
  seconds: number,
  ctx: RequestContext,
): Promise<string | null> {
  const done = new AbortController();
  const signal = AbortSignal.any([ctx.signal, done.signal]);
  const ended = await Promise.race([
    engine.wait(upid, signal),
    host.clock.sleep(seconds * 1000, signal).then(() => undefined),
  ]).finally(() => done.abort());
  if (ended === undefined) return upid;
  if (ended.state === "done") return null;
  const message = `failed to update VM ${vmid}: ${ended.exitStatus ?? ended.state}`;
  throw new AppError("operation.failed", message, { pveStatus: 500 });
}
