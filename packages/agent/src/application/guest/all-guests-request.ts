// A request about all guests of a node, or about some of them at once.
import { given } from "@gpve/contracts/given.ts";
import { askedBy, type RequestContext } from "@gpve/domain/request/context.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

export interface AllGuestsRequest {
  readonly node: string;
  /** A list of ids; absent = all of them. */
  readonly vms: string | undefined;
  readonly args: object;
}

/** Answers with the UPID of the task. */
export async function requestForGuests(
  engine: Pick<OperationEngine, "submit">,
  type: "startall" | "stopall" | "suspendall",
  { node, vms, args }: AllGuestsRequest,
  ctx: RequestContext,
): Promise<string> {
  const vmids = vms === undefined ? undefined : splitList(vms).map(Number);
  // A list of none is no way around the right to power them all.
  const paths = vmids === undefined || vmids.length === 0 ? ["/"] : vmids.map((vmid) => `/vms/${vmid}`);
  for (const path of paths) ctx.access.require(path, ["VM.PowerMgmt"]);
  const { upid } = await engine.submit({
    type,
    resources: [`node/${node}/all`],
    args: { ...args, ...given({ vmids }) },
    ...askedBy(ctx),
  });
  return upid;
}
