import { messageOf } from "@gpve/contracts/errors.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { checkLock } from "@gpve/domain/vm/lock.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { VmHost } from "../vm/vm-host.ts";
import { backupVm, type BackupRequest } from "./backup-vm.ts";
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";

export interface BackupArgs extends Omit<BackupRequest, "vmid"> {
  readonly vmids: readonly number[];
}

/** One task for all guests asked for, as PVE does: one that fails does not keep the others from being saved. */
export function backupOperation(host: VmHost, tools: BackupTools): OperationDefinition<BackupArgs> {
  return {
    type: "vzdump",
    lock: "backup",
    steps: [
      {
        name: "backup",
        run: async ({ args, signal, log, progress }) => {
          const { vmids, ...request } = args;
          log(
            `INFO: starting new backup job: vzdump ${vmids.join(" ")} --storage ${args.storage} --mode ${args.mode}`,
          );
          let failed = 0;
          for (const [index, vmid] of vmids.entries()) {
            try {
              checkLock(host.configs.get(vmid));
              await backupVm(
                host,
                tools,
                { ...request, vmid },
                { signal, log, progress: (part) => progress((index + part) / vmids.length) },
              );
            } catch (err) {
              signal.throwIfAborted();
              failed++;
              log(`ERROR: Backup of VM ${vmid} failed - ${messageOf(err)}`);
            }
          }
          if (failed > 0)
            throw new AppError(
              "operation.failed",
              failed === vmids.length && failed === 1
                ? "job errors"
                : `job errors: ${failed} of ${vmids.length} backups failed`,
            );
          log("INFO: Backup job finished successfully");
        },
      },
    ],
  };
}
