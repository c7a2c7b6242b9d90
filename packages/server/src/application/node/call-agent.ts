// The one way from a request to the agent of a node: the method's own permission is judged, and the call carries the
// decision. Both faces come through here.
import { given } from "@gpve/contracts/given.ts";
import {
  agentRoute,
  type AgentRoute,
  type AnswerOf,
  type AskedOf,
  type DataOf,
  type TunnelRoute,
} from "@gpve/contracts/agent/agent-routes.ts";
import { messageFault, type MessageSchema } from "@gpve/contracts/agent/check-message.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { decideForSystem, type Decision } from "@gpve/domain/access/decision.ts";
import type { AgentCall, AgentConnection, AgentDirectory, AgentReply } from "@gpve/domain/node/agent-port.ts";
import type { AccessView, Actor, RequestContext } from "@gpve/domain/request/context.ts";
import { checkSpan } from "@gpve/kit/telemetry/span.ts";
import { traceparent as activeTraceparent } from "@gpve/kit/telemetry/traceparent.ts";
import type { QuotaGate } from "../quota/quota-gate.ts";

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

/** As they came: whoever does the work reads them by the method's schema. */
export interface SentParams {
  readonly params: Params;
  readonly source: "form" | "json";
}

export type ReplyOf<R extends AgentRoute> = AgentReply & { readonly data: DataOf<R> };

export interface TunnelTo<R extends TunnelRoute> {
  readonly opened: AnswerOf<R>;
  readonly output: AsyncIterable<Uint8Array>;
}

export interface NodeCallsDeps {
  readonly agents: () => AgentDirectory | undefined;
  readonly localNode: string;
  readonly decide: Decide;
  /** Stands before every call. */
  readonly gate: Pick<QuotaGate, "pass">;
  /** Answers in a node's place what is not its own to do; undefined = it is. */
  readonly divert: (route: string, call: SentParams, ctx: Asking) => Promise<AgentReply | undefined>;
}

export class NodeCalls {
  readonly #deps: NodeCallsDeps;

  constructor(deps: NodeCallsDeps) {
    this.#deps = deps;
  }

  /** `params` without the node, which is the one that is called. */
  async call<R extends AgentRoute>(
    node: string,
    route: R,
    params: AskedOf<R>,
    ctx: Asking,
  ): Promise<ReplyOf<R>> {
    const all = { ...params, node: this.#named(node) };
    const reply = await this.forward(this.#decide(route, all, ctx), { params: all, source: "json" }, ctx);
    requireAnswer(agentRoute(route)?.answer, reply.data, { node, route });
    return reply as ReplyOf<R>;
  }

  /** A call that was judged before. */
  async forward(decision: Decision, call: SentParams, ctx: Asking): Promise<AgentReply> {
    const { requestId, clientAddress } = ctx;
    const traceparent = activeTraceparent() ?? ctx.traceparent;
    const node = String(call.params["node"]);
    // Whoever does it: what it takes was promised before.
    const send = async (): Promise<AgentReply> =>
      (await this.#deps.divert(decision.route, call, ctx)) ??
      this.#connection(node).call(
        { decision, ...call, requestId, clientAddress, ...given({ traceparent }) },
        ctx.signal,
      );
    const may = (vmid: number, privilege: string): boolean => ctx.access.has(`/vms/${vmid}`, [privilege]);
    const ask = async (route: AgentRoute, params: Params): Promise<unknown> =>
      (await this.call(node, route, params, ctx)).data;
    return this.#deps.gate.pass(
      { route: decision.route, ...call, requestId, work: ctx.work, may },
      ask,
      send,
    );
  }

  async tunnel<R extends TunnelRoute>(
    node: string,
    route: R,
    params: AskedOf<R>,
    input: AsyncIterable<Uint8Array>,
    ctx: Asking,
  ): Promise<TunnelTo<R>> {
    const all = { ...params, node: this.#named(node) };
    const decision = this.#decide(route, all, ctx);
    const connection = this.#connection(node);
    if (connection.tunnel === undefined)
      throw new AppError("feature.unsupported", `node ${connection.node} offers no tunnels`);
    const request = { decision, params: all, requestId: ctx.requestId };
    const { opened, output } = await connection.tunnel(request, input, ctx.signal);
    requireAnswer(agentRoute(route)?.answer, opened, { node, route });
    return { opened: opened as AnswerOf<R>, output };
  }

  knows(node: string): boolean {
    return this.#deps.agents()?.connection(this.#named(node)) !== undefined;
  }

  #decide(route: string, params: Params, ctx: Asking): Decision {
    if (ctx.work !== undefined) return decideForSystem(ctx.work, route, params, ctx.actor);
    return checkSpan("authorise", () => this.#deps.decide(route, params, ctx));
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

/** A node may be of another version, or no friend: what it says is looked at before it is believed. */
export function requireAnswer(
  schema: MessageSchema | undefined,
  answer: unknown,
  { node, route }: { readonly node: string; readonly route: string },
): void {
  const fault = schema === undefined ? undefined : messageFault(schema, answer);
  if (fault !== undefined)
    throw new AppError(
      "internal.error",
      `node '${node}' answered ${route} with what is no answer to it: ${fault}; look whether it runs this server's version`,
    );
}

/** PVE's words for a node that nobody has heard of. */
export function unknownNode(node: string): AppError {
  return new AppError(
    "object.not_found",
    `hostname lookup '${node}' failed - failed to get address info for: ${node}: Name or service not known`,
  );
}
