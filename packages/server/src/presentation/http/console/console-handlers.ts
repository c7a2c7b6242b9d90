// Consoles of VMs and of nodes: the node offers one, and whoever asked gets a ticket for it that is good for some seconds.
import { given } from "@gpve/contracts/given.ts";
import type { AnswerOf } from "@gpve/contracts/agent/agent-routes.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { NodeCalls } from "../../../application/node/call-agent.ts";

export interface ConsoleTickets {
  issueVnc(authid: string, path: string, port?: number): Promise<string>;
  verifyVnc(ticket: string, authid: string, path: string, port?: number): boolean;
}

export interface ConsoleHandlerDeps {
  readonly calls: NodeCalls;
  readonly localNode: string;
  readonly tickets: ConsoleTickets;
  /** PEM of the certificate clients see here. */
  readonly certificate: () => string;
}

type Offer = AnswerOf<"POST /gpve/nodes/{node}/shells">;

export function createConsoleHandlers(deps: ConsoleHandlerDeps): PveHandlers {
  const offer = async (
    node: string,
    params: { readonly vmid: number; readonly kind: "vnc" | "terminal"; readonly serial?: string },
    ctx: RequestContext,
  ) => {
    const { data } = await deps.calls.call(node, "POST /gpve/nodes/{node}/vms/{vmid}/consoles", params, ctx);
    return withTicket(data, `/vms/${params.vmid}`, ctx);
  };

  const withTicket = async ({ port, upid, password }: Offer, path: string, ctx: RequestContext) => {
    const user = ctx.actor?.authid ?? "";
    return { user, port, upid, password, ticket: await deps.tickets.issueVnc(user, path, port) };
  };

  return {
    "POST /nodes/{node}/qemu/{vmid}/vncproxy": async ({ node, vmid }, ctx) => {
      const { user, port, upid, password, ticket } = await offer(node, { vmid, kind: "vnc" }, ctx);
      // VNC reads eight characters of a password: clients that take the ticket for one are right, too.
      return { user, port, upid, password, ticket: `${password}:${ticket}`, cert: deps.certificate() };
    },

    "POST /nodes/{node}/qemu/{vmid}/termproxy": async ({ node, vmid, serial }, ctx) => {
      const wanted = { vmid, kind: "terminal", ...given({ serial }) } as const;
      const { user, port, upid, ticket } = await offer(node, wanted, ctx);
      return { user, port, upid, ticket };
    },

    "POST /nodes/{node}/termproxy": async ({ node, cmd }, ctx) => {
      const { data } = await deps.calls.call(
        node,
        "POST /gpve/nodes/{node}/shells",
        { command: cmd ?? "login" },
        ctx,
      );
      const { user, port, upid, ticket } = await withTicket(data, nodePath(deps, node), ctx);
      return { user, port, upid, ticket };
    },

    "GET /nodes/{node}/vncwebsocket": ({ node, port, vncticket }, ctx) => {
      requireTicket(deps.tickets, vncticket, ctx.actor?.authid ?? "", nodePath(deps, node), port);
      return { port: String(port) };
    },

    "GET /nodes/{node}/qemu/{vmid}/vncwebsocket": ({ vmid, port, vncticket }, ctx) => {
      requireTicket(deps.tickets, vncticket, ctx.actor?.authid ?? "", `/vms/${vmid}`, port);
      return { port: String(port) };
    },
  };
}

export function requireTicket(
  tickets: ConsoleTickets,
  ticket: string,
  authid: string,
  path: string,
  port: number,
): void {
  if (tickets.verifyVnc(ticket, authid, path, port)) return;
  throw new AppError("auth.failed", "permission denied - invalid PVEVNC ticket");
}

/** What a ticket for a node's own console is bound to. */
export function nodePath(deps: { readonly localNode: string }, node: string): string {
  return `/nodes/${node === "localhost" ? deps.localNode : node}`;
}
