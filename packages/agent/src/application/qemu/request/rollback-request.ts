import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { submitVmTask } from "./vm-tasks.ts";

export function requestRollback(
  engine: OperationEngine,
  {
    vmid,
    snapname,
    start = false,
  }: { readonly vmid: number; readonly snapname: string; readonly start?: boolean },
  ctx: RequestContext,
): Promise<string> {
  // Else the right to roll back would be one to switch on as well.
  if (start) ctx.access.require(`/vms/${vmid}`, ["VM.PowerMgmt"]);
  return submitVmTask(engine, "qmrollback", vmid, { name: snapname, start }, ctx);
}
