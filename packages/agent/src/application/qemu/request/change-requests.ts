// Requests to change a VM's configuration: at once, or as a task.
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { updateVmConfig, type UpdateConfigPorts } from "../config/update-config.ts";
import { checkedUpdate } from "./config-request.ts";
import { submitVmTask, vmKey, vmLock } from "./vm-tasks.ts";

export interface ChangeRequestDeps {
  readonly host: UpdateConfigPorts;
  readonly engine: OperationEngine;
}

type Changes = Readonly<Record<string, unknown>>;

export async function changeNow(
  { host, engine }: ChangeRequestDeps,
  vmid: number,
  changes: Changes,
  ctx: RequestContext,
): Promise<null> {
  const update = checkedUpdate(host, vmid, changes, ctx);
  const log = (line: string): void => ctx.log.info({ resource: `qemu/${vmid}` }, line);
  await engine.withResource(vmKey(vmid), vmLock(vmid, ctx.signal), () =>
    updateVmConfig(host, vmid, update, { signal: ctx.signal, log }),
  );
  return null;
}

/** Nothing when the task ends well within that many seconds; its UPID while it goes on, or where nobody waits. */
export async function requestChange(
  deps: ChangeRequestDeps,
  vmid: number,
  { background_delay: seconds, ...changes }: Changes & { readonly background_delay?: number },
  ctx: RequestContext,
): Promise<string | null> {
  const { host, engine } = deps;
  const update = checkedUpdate(host, vmid, changes, ctx);
  const upid = await submitVmTask(engine, "qmconfig", vmid, { update }, ctx);
  if (seconds === undefined) return upid;
  const done = new AbortController();
  const signal = AbortSignal.any([ctx.signal, done.signal]);
  const ended = await Promise.race([
    engine.wait(upid, signal),
    host.clock.sleep(seconds * 1000, signal).then(() => undefined),
  ]).finally(() => done.abort());
  if (ended === undefined) return upid;
  if (ended.state === "done") return null;
  const message = `failed to update VM ${vmid}: ${ended.exitStatus ?? ended.state}`;
  throw new AppError("operation.failed", message, { pveStatus: 500 });
}
