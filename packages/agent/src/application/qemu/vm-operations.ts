import type { OperationRegistrar } from "../guest/operation-registrar.ts";
import { configureVmOperation } from "./config/configure-vm.ts";
import { createVmOperation, type CreateVmPorts } from "./config/create-vm.ts";
import { cloneVmOperation, type CloneVmPorts } from "./disk/clone-vm.ts";
import { makeTemplateOperation } from "./disk/make-template.ts";
import { moveDiskOperation } from "./disk/move-disk.ts";
import { resizeDiskOperation } from "./disk/resize-disk.ts";
import { destroyVmOperation } from "./config/destroy-vm.ts";
import type { VmSnapshotPorts } from "./snapshot/vm-snapshots.ts";
import { startVmOperation } from "./start/start-operation.ts";
import {
  pauseVmOperation,
  rebootVmOperation,
  resetVmOperation,
  resumeVmOperation,
  shutdownVmOperation,
  stopVmOperation,
  type StopVmPorts,
} from "./power/stop-vm.ts";
import { suspendVmOperation } from "./power/suspend-vm.ts";
import type { UpdateConfigPorts } from "./config/update-config.ts";

export interface VmOperationsPorts
  extends CloneVmPorts, CreateVmPorts, StopVmPorts, UpdateConfigPorts, VmSnapshotPorts {}

/** What can happen to a VM beside what any guest has, known to the engine before it recovers what a crash left. */
export function registerVmOperations(engine: OperationRegistrar, host: VmOperationsPorts): void {
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
  engine.register(cloneVmOperation(host));
  engine.register(makeTemplateOperation(host));
  engine.register(resizeDiskOperation(host));
  engine.register(moveDiskOperation(host));
}
