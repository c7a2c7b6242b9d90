// PVE's methods for snapshots of a VM.
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { apiConfig } from "@gpve/domain/vm/api-config.ts";
import { requireSnapshot, snapshotRows } from "@gpve/domain/vm/snapshot.ts";
import { without, withSnapshot } from "@gpve/domain/vm/vm-config.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { runningVm, type VmHost } from "../../application/vm/vm-host.ts";
import { submitVmTask, vmKey, vmLock } from "./vm-tasks.ts";

export interface SnapshotHandlerDeps {
  readonly host: VmHost;
  readonly engine: OperationEngine;
}

const RESERVED = new Set(["current", "pending"]);

export function createSnapshotHandlers({ host, engine }: SnapshotHandlerDeps): PveHandlers {
  return {
    "GET /nodes/{node}/qemu/{vmid}/snapshot": ({ vmid }) =>
      snapshotRows(host.configs.get(vmid), runningVm(host, vmid) !== undefined),

    "POST /nodes/{node}/qemu/{vmid}/snapshot": ({ vmid, snapname, description, vmstate }, ctx) => {
      if (RESERVED.has(snapname))
        throw new AppError("request.invalid", `unable to use snapshot name '${snapname}' (reserved name)`, {
          pveStatus: 500,
        });
      const args = {
        name: snapname,
        withState: vmstate ?? false,
        ...(description === undefined ? {} : { description }),
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
          const snapshot = requireSnapshot(config, snapname);
          const values = description === "" ? without(snapshot, "description") : { ...snapshot, description };
          return withSnapshot(config, snapname, values);
        }),
      );
      return null;
    },

    "POST /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback": ({ vmid, snapname, start }, ctx) =>
      submitVmTask(engine, "qmrollback", vmid, { name: snapname, start: start ?? false }, ctx),
  };
}
