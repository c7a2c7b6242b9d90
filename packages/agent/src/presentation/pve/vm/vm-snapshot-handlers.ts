// PVE's methods for snapshots of a VM.
import { refused } from "@gpve/domain/request/failures.ts";
import { given } from "@gpve/contracts/given.ts";
import type { AppError } from "@gpve/contracts/errors.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { apiConfig } from "@gpve/domain/vm/config/api-config.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import { requireSnapshot, snapshotRows } from "@gpve/domain/guest/snapshot/snapshot.ts";
import { checkStateSavable } from "@gpve/domain/vm/snapshot/vm-snapshot-rules.ts";
import { without, withSnapshot } from "@gpve/domain/guest/guest-config.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { requestRollback } from "../../../application/qemu/request/rollback-request.ts";
import { submitVmTask, vmKey, vmLock } from "../../../application/qemu/request/vm-tasks.ts";
import { runningVm } from "../../../application/qemu/running-vm.ts";
import type { VmConfigs } from "../../../application/qemu/config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface VmSnapshotHandlersPorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
}

export interface SnapshotHandlerDeps {
  readonly host: VmSnapshotHandlersPorts;
  readonly engine: OperationEngine;
}

export function createSnapshotHandlers({ host, engine }: SnapshotHandlerDeps): PveHandlers {
  return {
    "GET /nodes/{node}/qemu/{vmid}/snapshot": ({ vmid }) =>
      snapshotRows(host.configs.get(vmid), runningVm(host, vmid) !== undefined),

    "POST /nodes/{node}/qemu/{vmid}/snapshot": ({ vmid, snapname, description, vmstate }, ctx) => {
      if (snapname === "current") throw reservedName("current");
      if (snapname.toLowerCase() === "pending") throw reservedName("pending");
      const { values } = host.configs.get(vmid);
      if (vmstate === true) checkStateSavable(values);
      const args = {
        name: snapname,
        withState: vmstate ?? false,
        ...given({ description }),
      };
      return submitVmTask(engine, "qmsnapshot", vmid, args, ctx);
    },

    "DELETE /nodes/{node}/qemu/{vmid}/snapshot/{snapname}": ({ vmid, snapname, force }, ctx) =>
      submitVmTask(engine, "qmdelsnapshot", vmid, { name: snapname, force: force ?? false }, ctx),

    "GET /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config": ({ vmid, snapname }) =>
      apiConfig(requireSnapshot(host.configs.get(vmid), snapname)),

    "PUT /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config": async (
      { vmid, snapname, description },
      ctx,
    ) => {
      if (description === undefined) return null;
      await engine.withResource(vmKey(vmid), vmLock(vmid, ctx.signal), () =>
        host.configs.change(vmid, (config) => {
          checkLock(config);
          const snapshot = requireSnapshot(config, snapname);
          const values = description === "" ? without(snapshot, "description") : { ...snapshot, description };
          return withSnapshot(config, snapname, values);
        }),
      );
      return null;
    },

    "POST /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback": (params, ctx) =>
      requestRollback(engine, params, ctx),
  };
}

function reservedName(name: string): AppError {
  return refused(`unable to use snapshot name '${name}' (reserved name)`);
}
