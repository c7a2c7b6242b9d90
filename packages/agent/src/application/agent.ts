// The agent as others see it: a table of node methods and one way to call them.
import { AppError } from "@gpve/contracts/errors.ts";
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
  return {
    node: deps.node,
    routes: new Set(table.keys()),
    ...(deps.tunnel === undefined ? {} : { tunnel: deps.tunnel }),
    async call(call, signal) {
      const handler = table.get(call.route);
      const extension = deps.extensions?.[call.route];
      if (handler === undefined && extension === undefined) {
        throw new AppError("feature.unsupported", `Method '${shown(call)}' not implemented`, {
          pveStatus: 501,
        });
      }
      const stated = call.params["node"];
      if (stated !== undefined && stated !== deps.node && stated !== "localhost") {
        throw new AppError(
          "internal.error",
          `call for node ${JSON.stringify(stated)} arrived at node ${deps.node}`,
        );
      }
      const context: RequestContext = {
        requestId: call.requestId,
        actor: call.actor,
        access: deps.accessOf(call.actor),
        signal,
        log: deps.logFor(call),
        clientAddress: call.clientAddress,
        ...(call.traceparent === undefined ? {} : { traceparent: call.traceparent }),
      };
      if (handler === undefined) return toReply(await extension?.(call.params, context));
      const params = deps.validate(call.route as PveRouteKey, call.params, call.source ?? "form");
      return toReply(await handler(params, context));
    },
  };
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
    ...(answer.total === undefined ? {} : { total: answer.total }),
    ...(answer.changes === undefined ? {} : { changes: answer.changes }),
    ...(answer.download === undefined ? {} : { download: answer.download }),
  };
}

function parseRaw(raw: Uint8Array | string): unknown {
  return JSON.parse(typeof raw === "string" ? raw : new TextDecoder().decode(raw));
}

/** "GET /nodes/n1/x": the route with its parameters filled in, as PVE names it. */
function shown(call: AgentCall): string {
  return call.route.replace(/\{([^}]+)\}/g, (whole, name: string) => {
    const value = call.params[name];
    return typeof value === "string" || typeof value === "number" ? String(value) : whole;
  });
}
