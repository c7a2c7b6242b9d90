// Consoles as servers ask for them. Tickets are the server's business; here an offer knows who it is for.
import { given } from "@gpve/contracts/given.ts";
import type { OwnHandlers, Tunnels } from "../../agent.ts";
import type { NodeShells } from "../../node-shells.ts";
import type { ConsoleSessions } from "../../guest/console-sessions.ts";
import type { Consoles } from "./consoles.ts";
import type { SpiceConsoles } from "./spice-consoles.ts";

export interface ConsoleParts {
  readonly node: string;
  readonly sessions: ConsoleSessions;
  readonly consoles: Consoles;
  readonly spice: SpiceConsoles;
  readonly shells: NodeShells;
}

type OfferRoute =
  | `POST /gpve/nodes/{node}/vms/{vmid}/${"consoles" | "spice"}`
  | "POST /gpve/nodes/{node}/shells";
type ConsoleTunnel =
  | `TUNNEL /gpve/nodes/{node}/vms/{vmid}/${"console" | "spice"}`
  | "TUNNEL /gpve/nodes/{node}/shell";

export function createConsoleExtensions(parts: ConsoleParts): OwnHandlers<OfferRoute> {
  const { node, consoles, spice, shells } = parts;
  return {
    "POST /gpve/nodes/{node}/vms/{vmid}/spice": ({ vmid }, ctx) => {
      ctx.access.require(`/vms/${vmid}`, ["VM.Console"]);
      return spice.offer(vmid, ctx.signal);
    },

    "POST /gpve/nodes/{node}/vms/{vmid}/consoles": async ({ vmid, kind, serial }, ctx) => {
      ctx.access.require(`/vms/${vmid}`, ["VM.Console"]);
      return consoles.offer({
        vmid,
        kind,
        authid: ctx.actor?.authid ?? "",
        ...given({ serial, traceparent: ctx.traceparent }),
      });
    },

    "POST /gpve/nodes/{node}/shells": async ({ command }, ctx) => {
      ctx.access.require(`/nodes/${node}`, ["Sys.Console"]);
      return shells.offer({
        authid: ctx.actor?.authid ?? "",
        command,
        ...given({ traceparent: ctx.traceparent }),
      });
    },
  };
}

export function consoleTunnels({ node, sessions, spice }: ConsoleParts): Tunnels<ConsoleTunnel> {
  return {
    "TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice": ({ vmid }, _authid, input, signal) =>
      spice.open(vmid, input, signal),
    "TUNNEL /gpve/nodes/{node}/vms/{vmid}/console": ({ vmid, port }, authid, input, signal) =>
      sessions.open({ owner: `/vms/${vmid}`, port, authid }, input, signal),
    "TUNNEL /gpve/nodes/{node}/shell": ({ port }, authid, input, signal) =>
      sessions.open({ owner: `/nodes/${node}`, port, authid }, input, signal),
  };
}
