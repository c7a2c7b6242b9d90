// Runs one resolved PVE method: here, or on the node it names.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { declaredRoute } from "@gpve/contracts/pve/routes.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveRouteKey } from "@gpve/contracts/pve/route-key.ts";
import { PveReply, type PveHandler, type PveHandlers } from "@gpve/domain/request/handler.ts";
import { checkSpan } from "@gpve/kit/telemetry/span.ts";
import { staticIndexRows } from "@gpve/domain/schema/method-index.ts";
import { methodKey } from "@gpve/domain/schema/method-table.ts";
import { toWire } from "@gpve/domain/schema/to-wire.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import type { Authenticated } from "../../../application/access/authenticator.ts";
import type { Decision } from "@gpve/domain/access/decision.ts";
import type { AgentCall, AgentReply } from "@gpve/domain/node/agent-port.ts";
import { askedPlacement, placePveGuest } from "../../../application/scheduler/place-pve-guest.ts";
import type { PveApiDeps } from "./ports.ts";
import { unknownNode } from "../../../application/node/call-agent.ts";
import { serverTaskNode } from "../../../application/node/server-tasks.ts";

export interface ExecuteRequest {
  readonly method: PveMethod;
  readonly params: Record<string, unknown>;
  readonly source: "form" | "json";
  readonly path: string;
  readonly auth: Authenticated;
  readonly requestId: string;
  readonly clientAddress: string;
  readonly signal: AbortSignal;
}

const JOINING =
  "a machine joins by the one command that 'gpvectl server join-command' or 'gpvectl node join-command' prints";

/** What gpve does in another way, and how, for who looks for it where PVE has it. */
const DONE_OTHERWISE: Readonly<Record<string, string>> = {
  "POST /cluster/config": "a single node becomes the first of a cluster by './gpve cluster init'",
  "POST /cluster/config/join": JOINING,
  "POST /cluster/config/nodes/{node}": JOINING,
};

export async function execute(deps: PveApiDeps, request: ExecuteRequest): Promise<PveReply> {
  const { method, auth, signal } = request;
  const key = methodKey(method);
  const route = declaredRoute(key);
  const index = route === undefined ? staticIndexRows(method) : undefined;
  if (route === undefined && index === undefined) {
    const instead = DONE_OTHERWISE[key];
    const what = `Method '${method.method} ${request.path}' not implemented`;
    throw new AppError("feature.unsupported", instead === undefined ? what : `${what}: ${instead}`);
  }
  if (method.method === "GET") await deps.fresh(signal);
  const asWire = (data: unknown): unknown => (route?.verbatim === true ? data : toWire(method.returns, data));
  return deps.trace(
    key,
    { "http.route": method.path, "http.request.method": method.method },
    async (traceparent) => {
      const access = deps.accessOf(auth.actor);
      const subject = { actor: auth.actor, access };
      const taskNode = serverTaskNode(key, request.params, (name) => deps.knowsNode(name));
      const asked = taskNode === undefined ? request.params : { ...request.params, node: taskNode };
      const decision = checkSpan("authorise", () => deps.decide(key, asked, subject));
      const { node, params } = atNode(deps, asked);
      const ctx: RequestContext = {
        requestId: request.requestId,
        actor: auth.actor,
        access,
        signal,
        log: deps.log,
        clientAddress: request.clientAddress,
        ...given({ traceparent }),
      };
      const runsOnNode = (route?.runs ?? (method.proxyto === "node" ? "node" : "server")) === "node";
      if (index === undefined && runsOnNode && node !== undefined) {
        const { source } = request;
        const forward = (given: Decision, sent: AgentCall["params"]): Promise<AgentReply> =>
          deps.calls.forward(given, { params: sent, source }, ctx);
        const placed = askedPlacement(key, params);
        const reply =
          placed === undefined
            ? await forward(decision, params)
            : await placePveGuest(deps.placement, { route: key, params, source }, ctx, (sent) =>
                forward(deps.decide(key, sent, { actor: auth.actor, access }), sent),
              );
        return new PveReply({ ...reply, data: asWire(reply.data) });
      }
      // PVE passes it on to the node; what is read from memory here must not make a node up.
      if (method.proxyto === "node" && node !== undefined && !deps.knowsNode(node)) throw unknownNode(node);
      const valid = checkSpan("validate", () =>
        requireValidParams(method, params, { source: request.source }),
      );
      if (index !== undefined) return new PveReply({ data: index });
      const reply = await handlerOf(deps.handlers, key)(valid as never, ctx);
      if (reply instanceof PveReply) {
        return reply.rawJson === undefined ? reply.withData(asWire(reply.data)) : reply;
      }
      return new PveReply({ data: asWire(reply) });
    },
  );
}

/** The node in the path; "localhost" is this one. */
function atNode(
  deps: Pick<PveApiDeps, "localNode">,
  params: ExecuteRequest["params"],
): { readonly node: string | undefined; readonly params: Record<string, unknown> } {
  const { node } = params;
  if (typeof node !== "string") return { node: undefined, params };
  return node === "localhost"
    ? { node: deps.localNode, params: { ...params, node: deps.localNode } }
    : { node, params };
}

function handlerOf(handlers: PveHandlers, key: string): PveHandler<PveRouteKey> {
  const handler = handlers[key as PveRouteKey] as PveHandler<PveRouteKey> | undefined;
  if (handler === undefined)
    throw new AppError("internal.error", `route ${key} is declared but has no handler`);
  return handler;
}
