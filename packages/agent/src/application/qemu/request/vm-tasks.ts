import { parameterError } from "@gpve/domain/request/failures.ts";
import { askedBy, isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

/** How a method waits for a VM. */
export function vmLock(vmid: number, signal: AbortSignal): { signal: AbortSignal; lockFile: string } {
  return { signal, lockFile: `/var/lock/qemu-server/lock-${vmid}.conf` };
}

/** The queue of a VM. */
export function vmKey(vmid: number): string {
  return `vm/${vmid}`;
}

/** `more`: other VMs that the work changes too; `subject`: the id in the UPID; `reads`: it leaves the VM itself alone. */
export async function submitVmTask(
  engine: OperationEngine,
  type: string,
  vmid: number,
  args: object,
  ctx: RequestContext,
  more: readonly number[] = [],
  subject = String(vmid),
  reads = false,
): Promise<string> {
  const { upid } = await engine.submit({
    type,
    resources: [vmid, ...more].map(vmKey),
    ...(reads ? { shared: [vmKey(vmid)] } : {}),
    args: { vmid, ...args },
    ...askedBy(ctx),
    subject,
  });
  return upid;
}

/** Options that nobody but root may give; the first that somebody else gave is named. */
export function requireRootFor(given: Readonly<Record<string, unknown>>, ctx: RequestContext): void {
  if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
  const name = Object.keys(given).find((key) => Boolean(given[key]));
  if (name !== undefined) throw parameterError({ [name]: "Only root may use this option." });
}
