// PVE's methods for the life of a VM.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { DestroyVmPorts } from "../../../application/qemu/config/destroy-vm.ts";
import type { UpdateConfigPorts } from "../../../application/qemu/config/update-config.ts";
import { changeNow, requestChange } from "../../../application/qemu/request/change-requests.ts";
import type { DiskRequestDeps } from "../../../application/qemu/request/disk-requests.ts";
import { createDiskHandlers } from "./vm-disk-handlers.ts";
import { createPowerHandlers } from "./vm-power-handlers.ts";
import { createSnapshotHandlers } from "./vm-snapshot-handlers.ts";
import {
  requestNewVm,
  type VmMakerDeps,
  type VmCreatePorts,
} from "../../../application/qemu/request/create-request.ts";
import { submitRemoval } from "../../../application/qemu/request/remove-request.ts";
import { vmStatus } from "../../../application/qemu/figures/vm-status.ts";

export type VmHandlersPorts = UpdateConfigPorts & VmCreatePorts & DestroyVmPorts & DiskRequestDeps["host"];

export interface VmHandlerDeps {
  readonly host: VmHandlersPorts;
  readonly engine: OperationEngine;
  readonly sampled: (vmid: number) => GuestRuntime | undefined;
  /** Storages on which a VM's disks may lie. */
  readonly imageStorages: () => readonly string[];
  readonly defaults: VmMakerDeps["defaults"];
  /** The configuration inside a backup, by its volume id. */
  readonly archivedConfig: (archive: string) => Promise<string>;
}

export function createVmHandlers(deps: VmHandlerDeps): PveHandlers {
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

    "PUT /nodes/{node}/qemu/{vmid}/config": ({ vmid, ...changes }, ctx) =>
      changeNow(deps, vmid, changes, ctx),

    "PUT /nodes/{node}/qemu/{vmid}/unlink": ({ vmid, idlist, force }, ctx) =>
      changeNow(deps, vmid, { delete: idlist, force: force ?? false }, ctx),

    "POST /nodes/{node}/qemu/{vmid}/config": ({ vmid, ...changes }, ctx) =>
      requestChange(deps, vmid, changes, ctx),

    "GET /nodes/{node}/qemu/{vmid}/status/current": ({ vmid }) =>
      vmStatus(deps.host, vmid, deps.sampled(vmid)),
  };
}
