// Consoles as servers ask for them. Tickets are the server's business; here an offer knows who it is for.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { AgentConnection } from "@gpve/domain/node/agent-port.ts";
import {
  CONSOLE_ROUTE,
  CONSOLE_TUNNEL,
  SHELL_ROUTE,
  SPICE_ROUTE,
  SHELL_TUNNEL,
  SPICE_TUNNEL,
} from "@gpve/domain/node/console.ts";
import type { ExtensionHandler } from "../../../application/agent.ts";
import type { NodeShells } from "../../../application/node-shells.ts";
import type { ConsoleSessions } from "../../../application/guest/console-sessions.ts";
import type { Consoles } from "../../../application/qemu/console/consoles.ts";
import type { SpiceConsoles } from "../../../application/qemu/console/spice-consoles.ts";

export interface ConsoleParts {
  readonly node: string;
  readonly sessions: ConsoleSessions;
  readonly consoles: Consoles;
  readonly spice: SpiceConsoles;
  readonly shells: NodeShells;
}

export function createConsoleExtensions(parts: ConsoleParts): Readonly<Record<string, ExtensionHandler>> {
  const { node, consoles, spice, shells } = parts;
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
        ...given({ traceparent: ctx.traceparent }),
      });
    },

    [SHELL_ROUTE]: async (params, ctx) => {
      ctx.access.require(`/nodes/${node}`, ["Sys.Console"]);
      const { command } = params;
      return shells.offer({
        authid: ctx.actor?.authid ?? "",
        command: typeof command === "string" ? command : "login",
        ...given({ traceparent: ctx.traceparent }),
      });
    },
  };
}

export function consoleTunnel(parts: ConsoleParts): NonNullable<AgentConnection["tunnel"]> {
  const { node, sessions, spice } = parts;
  return async (request, input, signal) => {
    const { decision, params } = request;
    const authid = decision.actor?.authid ?? "";
    const port = Number(params["port"]);
    switch (decision.route) {
      case SPICE_TUNNEL:
        return spice.open(vmidOf(params), input, signal);
      case CONSOLE_TUNNEL:
        return sessions.open({ owner: `/vms/${vmidOf(params)}`, port, authid }, input, signal);
      case SHELL_TUNNEL:
        return sessions.open({ owner: `/nodes/${node}`, port, authid }, input, signal);
      default:
        throw new AppError("feature.unsupported", `this node offers no ${JSON.stringify(decision.route)}`);
    }
  };
}

function vmidOf(params: Readonly<Record<string, unknown>>): number {
  const vmid = Number(params["vmid"]);
  if (!Number.isSafeInteger(vmid)) throw new AppError("request.invalid", "no such VM");
  return vmid;
}
