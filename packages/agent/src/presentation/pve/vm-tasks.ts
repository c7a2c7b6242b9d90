import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

export type SubmitVmTask = (type: string, vmid: number, args: object, ctx: RequestContext) => Promise<string>;

/** The queue of a VM. */
/** How a method waits for a VM. */
export function vmLock(vmid: number, signal: AbortSignal): { signal: AbortSignal; lockFile: string } {
  return { signal, lockFile: `/var/lock/qemu-server/lock-${vmid}.conf` };
}

export function vmKey(vmid: number): string {
  return `vm/${vmid}`;
}

/** `more`: other VMs that the work changes too. */
export async function submitVmTask(
  engine: OperationEngine,
  type: string,
  vmid: number,
  args: object,
  ctx: RequestContext,
  more: readonly number[] = [],
): Promise<string> {
  const { upid } = await engine.submit({
    type,
    resources: [vmid, ...more].map(vmKey),
    args: { vmid, ...args },
    actor: ctx.actor?.authid ?? "",
    subject: String(vmid),
    ...(ctx.traceparent === undefined ? {} : { traceparent: ctx.traceparent }),
  });
  return upid;
}
