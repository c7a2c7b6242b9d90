import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { notSet, updateText, type ConfigUpdate } from "@gpve/domain/vm/config-update.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { createVmOperation } from "./create-vm.ts";
import { cloneVmOperation } from "./disk/clone-vm.ts";
import { makeTemplateOperation } from "./disk/make-template.ts";
import { moveDiskOperation } from "./disk/move-disk.ts";
import { resizeDiskOperation } from "./disk/resize-disk.ts";
import { destroyVmOperation } from "./destroy-vm.ts";
import {
  createSnapshotOperation,
  deleteSnapshotOperation,
  rollbackOperation,
} from "./snapshot/snapshot-operations.ts";
import { startVmOperation } from "./start-vm.ts";
import {
  pauseVmOperation,
  rebootVmOperation,
  resetVmOperation,
  resumeVmOperation,
  shutdownVmOperation,
  stopVmOperation,
} from "./stop-vm.ts";
import { suspendVmOperation } from "./suspend-vm.ts";
import { updateVmConfig } from "./update-config.ts";
import type { VmHost } from "./vm-host.ts";

export interface OperationRegistrar {
  register<Args, State extends object>(definition: OperationDefinition<Args, State>): void;
}

/** Everything that can happen to a VM, known to the engine before it recovers what a crash left. */
export function registerVmOperations(engine: OperationRegistrar, host: VmHost): void {
  engine.register(createVmOperation(host));
  engine.register(destroyVmOperation(host));
  engine.register(startVmOperation(host));
  engine.register(stopVmOperation(host));
  engine.register(shutdownVmOperation(host));
  engine.register(rebootVmOperation(host));
  engine.register(resetVmOperation(host));
  engine.register(pauseVmOperation(host));
  engine.register(resumeVmOperation(host));
  engine.register(suspendVmOperation(host));
  engine.register(configureVmOperation(host));
  engine.register(createSnapshotOperation(host));
  engine.register(deleteSnapshotOperation(host));
  engine.register(rollbackOperation(host));
  engine.register(cloneVmOperation(host));
  engine.register(makeTemplateOperation(host));
  engine.register(resizeDiskOperation(host));
  engine.register(moveDiskOperation(host));
}

/** A task has one line for what went wrong, and names the parameters in it. */
function asTaskError(err: unknown): unknown {
  if (!isAppError(err) || err.errors === undefined) return err;
  const each = Object.entries(err.errors).map(([key, text]) => `${key}: ${text.trim()}`);
  return new AppError(err.code, ["400 Parameter verification failed.", ...each].join(" "), { cause: err });
}

function configureVmOperation(host: VmHost): OperationDefinition<{ vmid: number; update: ConfigUpdate }> {
  return {
    type: "qmconfig",
    steps: [
      {
        name: "configure",
        run: async ({ args: { vmid, update }, signal, log, progress }) => {
          log(`update VM ${vmid}: ${updateText(update)}`);
          for (const key of notSet(host.configs.get(vmid), update))
            log(`cannot delete '${key}' - not set in current configuration!`);
          try {
            await updateVmConfig(host, vmid, update, { signal, log, progress });
          } catch (err) {
            throw asTaskError(err);
          }
        },
      },
    ],
  };
}
