// Reaching the agent of a node on behalf of a request.
import { AppError } from "@gpve/contracts/errors.ts";
import type { AgentCall, AgentConnection, AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";

export function agentCall(
  route: string,
  params: Readonly<Record<string, unknown>>,
  ctx: RequestContext,
): AgentCall {
  return {
    route,
    params,
    source: "json",
    actor: ctx.actor,
    requestId: ctx.requestId,
    clientAddress: ctx.clientAddress,
    ...(ctx.traceparent === undefined ? {} : { traceparent: ctx.traceparent }),
  };
}

export function requireAgent(
  deps: { readonly agents: () => AgentDirectory; readonly localNode: string },
  node: string,
): AgentConnection {
  const connection = deps.agents().connection(node === "localhost" ? deps.localNode : node);
  if (connection !== undefined) return connection;
  throw unknownNode(node);
}

/** PVE's words for a node that nobody has heard of. */
export function unknownNode(node: string): AppError {
  return new AppError(
    "object.not_found",
    `hostname lookup '${node}' failed - failed to get address info for: ${node}: Name or service not known`,
  );
}
