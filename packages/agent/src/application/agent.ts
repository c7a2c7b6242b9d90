// The agent as others see it: a table of node methods and one way to call them.
import { checkSpan } from "@gpve/kit/telemetry/span.ts";
import { given } from "@gpve/contracts/given.ts";
import {
  agentRoute,
  type AnswerOf,
  type OwnCallRoute,
  type RequestOf,
  type TunnelRoute,
} from "@gpve/contracts/agent/agent-routes.ts";
import { messageFault } from "@gpve/contracts/agent/check-message.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { permissionDenied } from "@gpve/domain/access/access-view.ts";
import { requireDecision, type Decision } from "@gpve/domain/access/decision.ts";
import { paramText } from "@gpve/domain/access/permission-check.ts";
import type { AgentCall, AgentConnection, AgentReply, OpenTunnel } from "@gpve/domain/node/agent-port.ts";
import type { AccessView, Actor, RequestContext, RequestLogger } from "@gpve/domain/request/context.ts";
import type { PveRouteKey } from "@gpve/contracts/pve/route-key.ts";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";

export interface AgentDeps {
  readonly node: string;
  /** What each area offers. The same route from two areas is a mistake in the composition. */
  readonly handlers: readonly PveHandlers[];
  /** Routes that are not PVE's. */
  readonly extensions?: Partial<OwnHandlers>;
  /** Checks and types raw parameters; throws request.invalid with PVE's texts. */
  readonly validate: (
    route: PveRouteKey,
    params: Readonly<Record<string, unknown>>,
    source: "form" | "json",
  ) => unknown;
  /** Streams of bytes to what this node has. */
  readonly tunnels?: Partial<Tunnels>;
  readonly accessOf: (actor: Actor | undefined) => AccessView;
  readonly logFor: (call: Pick<AgentCall, "requestId">) => RequestLogger;
  /** Before a call for a guest; see `guestArrival`. */
  readonly arrival?: (vmid: string, signal: AbortSignal, log: RequestLogger) => Promise<void>;
}

/** Handlers of routes between servers and agents. A request is what the table says when it comes here. */
export type OwnHandlers<R extends OwnCallRoute = OwnCallRoute> = {
  readonly [K in R]: (params: RequestOf<K>, context: RequestContext) => AnswerOf<K> | Promise<AnswerOf<K>>;
};

export type Tunnels<R extends TunnelRoute = TunnelRoute> = {
  readonly [K in R]: (
    params: RequestOf<K>,
    /** Who was let in; "" = the system. */
    authid: string,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ) => Promise<{ readonly opened: AnswerOf<K>; readonly output: AsyncIterable<Uint8Array> }>;
};

export interface Agent extends AgentConnection {
  /** Route keys this agent can serve. */
  readonly routes: ReadonlySet<string>;
}

type AnyHandler = (params: unknown, context: RequestContext) => unknown;
type AnyTunnel = (
  params: unknown,
  authid: string,
  input: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
) => Promise<OpenTunnel>;

export function createAgent(deps: AgentDeps): Agent {
  const table = mergeHandlers(deps.handlers);
  const extensions = tableOf<AnyHandler>(deps.extensions ?? {});
  const tunnels = tableOf<AnyTunnel>(deps.tunnels ?? {});
  return {
    node: deps.node,
    routes: new Set(table.keys()),
    async tunnel({ decision, params, requestId }, input, signal) {
      requireDecision(decision, { node: deps.node, params });
      const tunnel = tunnels.get(decision.route);
      if (tunnel === undefined)
        throw new AppError("feature.unsupported", `this node offers no ${JSON.stringify(decision.route)}`);
      requireHere(deps.node, params);
      requireRequest(decision.route, params);
      await hearOfGuest(deps, decision, signal, deps.logFor({ requestId }));
      return tunnel(params, decision.actor?.authid ?? "", input, signal);
    },
    async call(call, signal) {
      // Before anything else: what nobody decided is not even looked at.
      requireDecision(call.decision, { node: deps.node, params: call.params });
      const { route, actor } = call.decision;
      const handler = table.get(route);
      const extension = extensions.get(route);
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
      if (handler === undefined) {
        requireRequest(route, call.params);
        await hearOfGuest(deps, call.decision, signal, context.log);
        return toReply(await extension?.(call.params, context));
      }
      const params = checkSpan("validate", () =>
        deps.validate(route as PveRouteKey, call.params, call.source ?? "form"),
      );
      requireJudged(call.decision, params);
      await hearOfGuest(deps, call.decision, signal, context.log);
      return toReply(await handler(params, context));
    },
  };
}

async function hearOfGuest(
  { arrival }: Pick<AgentDeps, "arrival">,
  { route, judged }: Decision,
  signal: AbortSignal,
  log: RequestLogger,
): Promise<void> {
  const vmid = route.includes("/{vmid}") ? judged["vmid"] : undefined;
  if (vmid !== undefined) await arrival?.(vmid, signal, log);
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

/** A route that is not listed does not compile; one that was forced in is not offered. */
function tableOf<H>(handlers: object): ReadonlyMap<string, H> {
  const table = new Map<string, H>(Object.entries(handlers) as [string, H][]);
  for (const route of table.keys())
    if (agentRoute(route) === undefined)
      throw new AppError("internal.error", `${route} is not declared: nobody could be let in`);
  return table;
}

function requireRequest(route: string, params: AgentCall["params"]): void {
  const schema = agentRoute(route)?.request;
  const fault = schema === undefined ? "it is not declared" : messageFault(schema, params);
  if (fault !== undefined)
    throw new AppError(
      "request.invalid",
      `${route}: ${fault}; server and node may be of versions that do not go together`,
    );
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
