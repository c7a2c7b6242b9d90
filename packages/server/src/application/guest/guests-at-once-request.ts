// A request to do one thing with many VMs: what PVE finds out before it forks.
import { given } from "@gpve/contracts/given.ts";
import { missing, parameterError, refused } from "@gpve/domain/request/failures.ts";
import { askedBy, type RequestContext } from "@gpve/domain/request/context.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { AtOnceArgs, AtOnceType } from "./guests-at-once.ts";

export interface AtOnceRequestDeps {
  readonly engine: Pick<OperationEngine, "submit">;
  readonly knowsNode: (node: string) => boolean;
  /** `max_workers` of the datacenter. */
  readonly maxWorkers: () => number | undefined;
}

export type AtOnceAsked = Omit<AtOnceArgs, "workers" | "vmids"> & {
  readonly vmids: readonly number[] | undefined;
  readonly workers: number | undefined;
};

/** Answers with the UPID of the task. */
export async function requestAtOnce(
  { engine, knowsNode, maxWorkers }: AtOnceRequestDeps,
  type: AtOnceType,
  asked: AtOnceAsked,
  ctx: Pick<RequestContext, "access" | "actor" | "traceparent">,
): Promise<string> {
  const { vmids, workers = maxWorkers(), ...rest } = asked;
  const { verb, node, params } = rest;
  requireRight(verb === "migrate" ? "VM.Migrate" : "VM.PowerMgmt", vmids, ctx);
  const { target } = params;
  if (target !== undefined && target === node) throw parameterError({ target: "target is local node." });
  if (typeof target === "string" && !knowsNode(target)) throw missing(`no such cluster node '${target}'\n`);
  if (workers === undefined)
    throw refused("either 'max-workers' parameter or max_workers in datacenter.cfg must be set!\n");
  const args: AtOnceArgs = { ...rest, workers, ...given({ vmids }) };
  const { upid } = await engine.submit({ type, resources: [], args, ...askedBy(ctx) });
  return upid;
}

/** On all, or on each that is named. */
function requireRight(
  privilege: string,
  vmids: readonly number[] | undefined,
  { access }: Pick<RequestContext, "access">,
): void {
  const paths = vmids === undefined || vmids.length === 0 ? ["/"] : vmids.map((vmid) => `/vms/${vmid}`);
  for (const path of paths) access.require(path, [privilege]);
}
