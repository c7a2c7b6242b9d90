// Consoles as servers ask for them. Tickets are the server's business; here an offer knows who it is for.
import { AppError } from "@gpve/contracts/errors.ts";
import type { AgentConnection } from "@gpve/domain/node/agent-port.ts";
import { CONSOLE_ROUTE, CONSOLE_TARGET, SPICE_ROUTE, SPICE_TARGET } from "@gpve/domain/node/console.ts";
import type { ExtensionHandler } from "../../application/agent.ts";
import type { Consoles } from "../../application/vm/consoles.ts";
import type { SpiceConsoles } from "../../application/vm/spice-consoles.ts";

export function createConsoleExtensions(
  consoles: Consoles,
  spice: SpiceConsoles,
): Readonly<Record<string, ExtensionHandler>> {
  return {
    [SPICE_ROUTE]: (params, ctx) => {
      const vmid = vmidOf(params);
      ctx.access.require(`/vms/${vmid}`, ["VM.Console"]);
      return spice.offer(vmid, ctx.signal);
    },

    [CONSOLE_ROUTE]: async (params, ctx) => {
      const vmid = vmidOf(params);
      ctx.access.require(`/vms/${vmid}`, ["VM.Console"]);
      const { kind, serial } = params;
      if (kind !== "vnc" && kind !== "terminal") throw new AppError("request.invalid", "no such console");
      return consoles.offer({
        vmid,
        kind,
        authid: ctx.actor?.authid ?? "",
        ...(typeof serial === "string" ? { serial } : {}),
        ...(ctx.traceparent === undefined ? {} : { traceparent: ctx.traceparent }),
      });
    },
  };
}

export function consoleTunnel(
  consoles: Consoles,
  spice: SpiceConsoles,
): NonNullable<AgentConnection["tunnel"]> {
  return async (request, input, signal) => {
    if (request.target === SPICE_TARGET) return spice.open(vmidOf(request.params), input, signal);
    if (request.target !== CONSOLE_TARGET)
      throw new AppError(
        "feature.unsupported",
        `this node offers no tunnel to ${JSON.stringify(request.target)}`,
      );
    const { port } = request.params;
    const authid = request.actor?.authid ?? "";
    return consoles.open({ vmid: vmidOf(request.params), port: Number(port), authid }, input, signal);
  };
}

function vmidOf(params: Readonly<Record<string, unknown>>): number {
  const vmid = Number(params["vmid"]);
  if (!Number.isSafeInteger(vmid)) throw new AppError("request.invalid", "no such VM");
  return vmid;
}
