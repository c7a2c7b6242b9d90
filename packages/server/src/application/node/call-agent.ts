// The one way from a request to the agent of a node: the method's own permission is judged, and the call carries the
// decision. Both faces come through here.
import { given } from "@gpve/contracts/given.ts";
import type { AgentRoute, TunnelRoute } from "@gpve/contracts/agent/agent-routes.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { decideForSystem, type Decision } from "@gpve/domain/access/decision.ts";
import type {
  AgentCall,
  AgentConnection,
  AgentDirectory,
  AgentReply,
  OpenTunnel,
} from "@gpve/domain/node/agent-port.ts";
import type { AccessView, Actor, RequestContext } from "@gpve/domain/request/context.ts";

export type Params = AgentCall["params"];

/** Throws access.denied when the permission that the route declares is not there. */
export type Decide = (
  route: string,
  params: Params,
  subject: { readonly actor: Actor | undefined; readonly access: AccessView },
) => Decision;

export type Asking = Pick<
  RequestContext,
  "actor" | "access" | "requestId" | "clientAddress" | "signal" | "traceparent" | "work"
>;

export interface NodeCallsDeps {
  readonly agents: () => AgentDirectory | undefined;
  readonly localNode: string;
  readonly decide: Decide;
}

export class NodeCalls {
  readonly #deps: NodeCallsDeps;

  constructor(deps: NodeCallsDeps) {
    this.#deps = deps;
  }

  /** `params` without the node, which is the one that is called. */
  async call(node: string, route: AgentRoute, params: Params, ctx: Asking): Promise<AgentReply> {
    const all = { ...params, node: this.#named(node) };
    return this.forward(this.#decide(route, all, ctx), { params: all, source: "json" }, ctx);
  }

  /** A call that was judged before. */
  async forward(
    decision: Decision,
    call: { readonly params: Params; readonly source: "form" | "json" },
    ctx: Asking,
  ): Promise<AgentReply> {
    const { requestId, clientAddress, traceparent } = ctx;
    return this.#connection(String(call.params["node"])).call(
      {
        decision,
        ...call,
        requestId,
        clientAddress,
        ...given({ traceparent }),
      },
      ctx.signal,
    );
  }

  async tunnel(
    node: string,
    route: TunnelRoute,
    params: Params,
    input: AsyncIterable<Uint8Array>,
    ctx: Asking,
  ): Promise<OpenTunnel> {
    const all = { ...params, node: this.#named(node) };
    const decision = this.#decide(route, all, ctx);
    const connection = this.#connection(node);
    if (connection.tunnel === undefined)
      throw new AppError("feature.unsupported", `node ${connection.node} offers no tunnels`);
    return connection.tunnel({ decision, params: all, requestId: ctx.requestId }, input, ctx.signal);
  }

  knows(node: string): boolean {
    return this.#deps.agents()?.connection(this.#named(node)) !== undefined;
  }

  #decide(route: string, params: Params, ctx: Asking): Decision {
    if (ctx.work !== undefined) return decideForSystem(ctx.work, route, params, ctx.actor);
    return this.#deps.decide(route, params, ctx);
  }

  #connection(node: string): AgentConnection {
    const connection = this.#deps.agents()?.connection(this.#named(node));
    if (connection === undefined) throw unknownNode(node);
    return connection;
  }

  #named(node: string): string {
    return node === "localhost" ? this.#deps.localNode : node;
  }
}

/** PVE's words for a node that nobody has heard of. */
export function unknownNode(node: string): AppError {
  return new AppError(
    "object.not_found",
    `hostname lookup '${node}' failed - failed to get address info for: ${node}: Name or service not known`,
  );
}
