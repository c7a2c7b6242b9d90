// PVE's methods for all guests of a node at once.
import { given } from "@gpve/contracts/given.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

export interface AllGuestsHandlerDeps {
  readonly engine: Pick<OperationEngine, "submit">;
}

export function createAllGuestsHandlers({ engine }: AllGuestsHandlerDeps): PveHandlers {
  const submit = async (
    type: string,
    node: string,
    vms: string | undefined,
    args: object,
    ctx: RequestContext,
  ): Promise<string> => {
    const vmids = vms === undefined ? undefined : splitList(vms).map(Number);
    const paths = vmids === undefined ? ["/"] : vmids.map((vmid) => `/vms/${vmid}`);
    for (const path of paths) ctx.access.require(path, ["VM.PowerMgmt"]);
    const { upid } = await engine.submit({
      type,
      resources: [`node/${node}/all`],
      args: { ...args, ...given({ vmids }) },
      actor: ctx.actor?.authid ?? "",
      ...given({ traceparent: ctx.traceparent }),
    });
    return upid;
  };
  return {
    "POST /nodes/{node}/startall": ({ node, vms, force }, ctx) =>
      submit("startall", node, vms, { force: force ?? false }, ctx),
    "POST /nodes/{node}/stopall": ({ node, vms, timeout, "force-stop": forceStop }, ctx) =>
      submit(
        "stopall",
        node,
        vms,
        { forceStop: forceStop ?? true, ...given({ timeoutSeconds: timeout }) },
        ctx,
      ),
    "POST /nodes/{node}/suspendall": ({ node, vms }, ctx) => submit("suspendall", node, vms, {}, ctx),
  };
}
