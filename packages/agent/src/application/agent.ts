// The agent as others see it: a table of node methods and one way to call them.
import { given } from "@gpve/contracts/given.ts";
import { agentRoute } from "@gpve/contracts/agent/agent-routes.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { permissionDenied } from "@gpve/domain/access/access-view.ts";
import { requireDecision, type Decision } from "@gpve/domain/access/decision.ts";
import { paramText } from "@gpve/domain/access/permission-check.ts";
import type { AgentCall, AgentConnection, AgentReply } from "@gpve/domain/node/agent-port.ts";
import type { AccessView, Actor, RequestContext, RequestLogger } from "@gpve/domain/request/context.ts";
import { PveReply, type PveHandlers, type PveRouteKey } from "@gpve/domain/request/handler.ts";

export interface AgentDeps {
  readonly node: string;
  /** What each area offers. The same route from two areas is a mistake in the composition. */
  readonly handlers: readonly PveHandlers[];
  /** Routes that are not PVE's: they check their parameters themselves. */
  readonly extensions?: Readonly<Record<string, ExtensionHandler>>;
  /** Checks and types raw parameters; throws request.invalid with PVE's texts. */
  readonly validate: (
    route: PveRouteKey,
    params: Readonly<Record<string, unknown>>,
    source: "form" | "json",
  ) => unknown;
  /** Streams of bytes to what this node has. */
  readonly tunnel?: NonNullable<AgentConnection["tunnel"]>;
  readonly accessOf: (actor: Actor | undefined) => AccessView;
  readonly logFor: (call: AgentCall) => RequestLogger;
}

export type ExtensionHandler = (params: AgentCall["params"], context: RequestContext) => unknown;

export interface Agent extends AgentConnection {
  /** Route keys this agent can serve. */
  readonly routes: ReadonlySet<string>;
}

type AnyHandler = (params: unknown, context: RequestContext) => unknown;

export function createAgent(deps: AgentDeps): Agent {
  const table = mergeHandlers(deps.handlers);
  for (const route of Object.keys(deps.extensions ?? {}))
    if (agentRoute(route) === undefined)
      throw new AppError("internal.error", `${route} is not declared: nobody could be let in`);
  const { tunnel } = deps;
  return {
    node: deps.node,
    routes: new Set(table.keys()),
    ...(tunnel === undefined
      ? {}
      : {
          async tunnel(request, input, signal) {
            requireDecision(request.decision, { node: deps.node, params: request.params });
            requireHere(deps.node, request.params);
            return tunnel(request, input, signal);
          },
        }),
    async call(call, signal) {
      // Before anything else: what nobody decided is not even looked at.
      requireDecision(call.decision, { node: deps.node, params: call.params });
      const { route, actor } = call.decision;
      const handler = table.get(route);
      const extension = deps.extensions?.[route];
      if (handler === undefined && extension === undefined) {
        throw new AppError("feature.unsupported", `Method '${shown(call)}' not implemented`, {
          pveStatus: 501,
        });
      }
      requireHere(deps.node, call.params);
      const context: RequestContext = {
        requestId: call.requestId,
        actor,
        access: deps.accessOf(actor),
        signal,
        log: deps.logFor(call),
        clientAddress: call.clientAddress,
        ...given({ traceparent: call.traceparent }),
      };
      if (handler === undefined) return toReply(await extension?.(call.params, context));
      const params = deps.validate(route as PveRouteKey, call.params, call.source ?? "form");
      requireJudged(call.decision, params);
      return toReply(await handler(params, context));
    },
  };
}

/** "0100" must not be judged as one thing and used as another. */
function requireJudged({ route, judged }: Decision, params: unknown): void {
  const used = typeof params === "object" && params !== null ? (params as Record<string, unknown>) : {};
  for (const [name, text] of Object.entries(judged)) {
    const value = used[name];
    if (name === "node" || value === undefined || paramText(value) === text) continue;
    throw permissionDenied(`${route}: decided for ${name} '${text}', which means '${paramText(value)}'`);
  }
}

function requireHere(node: string, params: AgentCall["params"]): void {
  const stated = params["node"];
  if (stated === undefined || stated === node || stated === "localhost") return;
  throw new AppError("internal.error", `call for node ${JSON.stringify(stated)} arrived at node ${node}`);
}

function mergeHandlers(areas: readonly PveHandlers[]): Map<string, AnyHandler> {
  const table = new Map<string, AnyHandler>();
  for (const [route, handler] of areas.flatMap((area) => Object.entries(area))) {
    if (handler === undefined) continue;
    if (table.has(route)) throw new AppError("internal.error", `two areas offer ${route}`);
    table.set(route, handler as AnyHandler);
  }
  return table;
}

function toReply(answer: unknown): AgentReply {
  if (!(answer instanceof PveReply)) return { data: answer };
  const data = answer.rawJson === undefined ? answer.data : parseRaw(answer.rawJson);
  return {
    data,
    ...given({ total: answer.total, changes: answer.changes, download: answer.download }),
  };
}

function parseRaw(raw: Uint8Array | string): unknown {
  return JSON.parse(typeof raw === "string" ? raw : new TextDecoder().decode(raw));
}

/** "GET /nodes/n1/x": the route with its parameters filled in, as PVE names it. */
function shown(call: AgentCall): string {
  return call.decision.route.replace(/\{([^}]+)\}/g, (whole, name: string) => {
    const value = call.params[name];
    return typeof value === "string" || typeof value === "number" ? String(value) : whole;
  });
}
