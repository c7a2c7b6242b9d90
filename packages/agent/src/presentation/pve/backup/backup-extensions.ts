// Backups as /api/v1 asks for them: with what PVE's vzdump has no parameter for.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "../../../application/agent.ts";
import { BACKUP_QUEUE } from "../../../application/guest/backup/backup-operation.ts";
import type { VmConfigs } from "../../../application/qemu/config/vm-configs.ts";
import { backupArgs, type VzdumpParams, type BackupRequestPorts } from "./vzdump-request.ts";

export function createBackupExtensions(deps: {
  readonly host: BackupRequestPorts & { readonly configs: VmConfigs };
  readonly engine: Pick<OperationEngine, "submit">;
}): OwnHandlers<"POST /gpve/nodes/{node}/vms/{vmid}/backup"> {
  const { host, engine } = deps;
  return {
    "POST /gpve/nodes/{node}/vms/{vmid}/backup": async ({ vmid, storage, backup: body, requestId }, ctx) => {
      ctx.access.require(`/vms/${vmid}`, ["VM.Backup"]);
      if (!host.configs.has(vmid))
        throw new AppError("object.not_found", `there is no VM ${vmid} on node ${host.configs.node}`);
      ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
      const asked: VzdumpParams = {
        vmid: String(vmid),
        storage,
        mode: body.mode ?? "snapshot",
        compress: body.compress === "none" ? "0" : (body.compress ?? "zstd"),
        ...given({ "notes-template": body.notes, protected: body.protected }),
      };
      // A request that is made again must be the same to the last byte.
      const { submittedAt: _now, ...args } = backupArgs(host, asked, { vmids: [vmid], skipped: [] }, ctx);
      const { upid } = await engine.submit({
        type: "vzdump",
        resources: [BACKUP_QUEUE],
        args: { ...args, incremental: body.incremental ?? true },
        actor: ctx.actor?.authid ?? "",
        subject: String(vmid),
        requestId,
        ...given({ traceparent: ctx.traceparent }),
      });
      return upid;
    },
  };
}
