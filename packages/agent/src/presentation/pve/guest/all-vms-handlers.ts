// PVE's methods for all VMs of a node at once, and the statistics of one.
import { given } from "@gpve/contracts/given.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

export interface AllVmsHandlerDeps {
  readonly engine: Pick<OperationEngine, "submit">;
  /** Throws when there is no such VM. */
  readonly statistics: (
    vmid: number,
    timeframe: "hour" | "day" | "week" | "month" | "year" | "decade",
    cf: "AVERAGE" | "MAX",
  ) => readonly Readonly<Record<string, number>>[];
}

export function createAllVmsHandlers({ engine, statistics }: AllVmsHandlerDeps): PveHandlers {
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
    "GET /nodes/{node}/qemu/{vmid}/rrddata": ({ vmid, timeframe, cf }) =>
      statistics(vmid, timeframe, cf ?? "AVERAGE"),
  };
}
