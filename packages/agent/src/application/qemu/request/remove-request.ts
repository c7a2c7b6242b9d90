// One request to remove a VM, whoever makes it. /api/v1 says which VM it has judged; PVE's method takes the one that is there.
import { given } from "@gpve/contracts/given.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import {
  checkDestroyable,
  requireMeant,
  type DestroyArgs,
  type DestroyVmPorts,
} from "../config/destroy-vm.ts";
import { requireRootFor, submitVmTask } from "./vm-tasks.ts";

export interface VmRemoverDeps {
  readonly host: DestroyVmPorts;
  readonly engine: OperationEngine;
  /** Storages on which a VM's disks may lie. */
  readonly imageStorages: () => readonly string[];
}

export function submitRemoval(
  { host, engine, imageStorages }: VmRemoverDeps,
  vm: Partial<DestroyArgs> & Pick<DestroyArgs, "vmid">,
  ctx: RequestContext,
): Promise<string> {
  const { vmid, skiplock = false, purge = false, destroyUnreferenced = false, meant } = vm;
  requireRootFor({ skiplock }, ctx);
  if (meant !== undefined) requireMeant(host, vmid, meant);
  checkDestroyable(host, vmid);
  const args = {
    skiplock,
    purge,
    destroyUnreferenced,
    storages: imageStorages(),
    ...given({ meant }),
  };
  return submitVmTask(engine, "qmdestroy", vmid, args, ctx);
}
