// Backups as /api/v1 asks for them.
import type { OwnHandlers } from "../../../application/agent.ts";
import { requestVmBackup, type VmBackupDeps } from "../../../application/guest/backup/request-backup.ts";

export function createBackupExtensions(
  deps: VmBackupDeps,
): OwnHandlers<"POST /gpve/nodes/{node}/vms/{vmid}/backup"> {
  return {
    "POST /gpve/nodes/{node}/vms/{vmid}/backup": (request, ctx) => requestVmBackup(deps, request, ctx),
  };
}
