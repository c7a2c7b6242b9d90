// /api/v1: from an HTTP request to an object, a list, a stream of events or a problem. The order of the checks:
// route (404, 405), authentication (401), permission (403), query and body (400, 413), then the work.
import { sayAge } from "../http/respond.ts";
import type { IncomingMessage, ServerResponse } from "node:http";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/contracts/json-object.ts";
import { problemOf } from "@gpve/contracts/v1/problem.ts";
import { isOptionalBody } from "@gpve/contracts/v1/optional-body.ts";
import { V1_PREFIX, v1Routes } from "@gpve/contracts/v1/routes.ts";
import type { FixedOperation, V1Route } from "@gpve/contracts/v1/routes.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { Actor, RequestContext } from "@gpve/domain/request/context.ts";
import { AccessEpoch } from "../../application/v1/access-epoch.ts";
import { requireMay } from "../../application/v1/authorisation.ts";
import { Idempotency, idempotentRequest } from "../../application/v1/idempotency.ts";
import type { IdempotentRequest } from "../../application/v1/idempotency.ts";
import { notFound, ObjectService } from "../../application/v1/object-service.ts";
import { Validator } from "../../application/v1/validation.ts";
import { markKnown } from "../listener/known-peers.ts";
import { audited, failure, send, withoutRouteSecrets } from "./answer.ts";
import type { Answer, Progress } from "./answer.ts";
import { fixedOperations } from "./fixed-operations.ts";
import type { Call, Reply } from "./call.ts";
import type { FixedHandlers } from "./fixed-operations.ts";
import { RouteTable, readQuery } from "./match-route.ts";
import type { RouteMatch } from "./match-route.ts";
import { objectOperation } from "./object-operations.ts";
import type { V1Deps } from "./ports.ts";
import { bodyTerms } from "../http/read-body.ts";
import { readJson } from "./read-json.ts";
import { wholeObject } from "./new-object.ts";
import { namedObject } from "./named-object.ts";
import { bodyIn, namespaceIn, queryIn, requireIn } from "./tenant-scope.ts";
import { watchOperation } from "./watch-operation.ts";
import type { Credentials } from "../../application/access/authenticator.ts";

export type V1Api = (
  req: IncomingMessage,
  res: ServerResponse,
  info: { readonly clientAddress: string },
) => Promise<void>;

export function createV1Api(deps: V1Deps): V1Api & { close(): void } {
  const validator = new Validator();
  const idempotency = new Idempotency(deps.records, deps.clock);
  const service = new ObjectService({
    records: deps.records,
    clock: deps.clock,
    validator,
    idempotency,
    adapters: deps.adapters,
    history: deps.history,
  });
  const epoch = new AccessEpoch(deps.records);
  const table = new RouteTable(v1Routes(deps.adapters.map((adapter) => adapter.kind)));
  const server: Server = {
    deps,
    validator,
    service,
    epoch,
    table,
    fixed: fixedOperations(deps, { validator, idempotency }),
  };
  const api: V1Api = (req, res, info) => answerRequest(server, req, res, info.clientAddress);
  return Object.assign(api, {
    close: () => {
      service.close();
      epoch.close();
    },
  });
}

interface Server {
  readonly deps: V1Deps;
  readonly validator: Validator;
  readonly service: ObjectService;
  readonly epoch: AccessEpoch;
  readonly table: RouteTable;
  readonly fixed: FixedHandlers;
}

async function answerRequest(
  server: Server,
  req: IncomingMessage,
  res: ServerResponse,
  clientAddress: string,
): Promise<void> {
  const { deps } = server;
  const startedAt = deps.clock.monotonic();
  const method = req.method ?? "";
  const progress: Progress = {
    requestId: deps.newRequestId(),
    clientAddress,
    route: undefined,
    params: {},
    actor: undefined,
    body: undefined,
  };
  let answer: Answer | "streamed";
  try {
    const match = server.table.match(method, pathOf(req.url ?? ""));
    const route = match.kind === "found" ? `${V1_PREFIX}${match.route.path}` : V1_PREFIX;
    answer = await deps.trace(
      `${method} ${route}`,
      { "http.request.method": method, "http.route": route },
      (traceparent) => handle(server, req, res, { progress, match, traceparent }),
    );
  } catch (err) {
    answer = await failure(deps, err, progress, startedAt);
  }
  answer = await audited(deps, req, progress, answer);
  const status = answer === "streamed" ? res.statusCode : answer.status;
  sayAge(method, res, deps.ageSeconds());
  if (answer !== "streamed") send(req, res, answer, progress.requestId);
  deps.observe(
    `${V1_PREFIX}${progress.route?.path ?? "/unknown"}`,
    method,
    status,
    (deps.clock.monotonic() - startedAt) / 1000,
  );
}

async function handle(
  server: Server,
  req: IncomingMessage,
  res: ServerResponse,
  begun: {
    readonly progress: Progress;
    readonly match: RouteMatch;
    readonly traceparent: string | undefined;
  },
): Promise<Answer | "streamed"> {
  const { deps } = server;
  const { progress, match, traceparent } = begun;
  const method = req.method ?? "";
  const url = req.url ?? "";
  const path = pathOf(url);
  if (match.kind === "unknown")
    throw new AppError("object.not_found", `there is nothing at ${method} ${path}`);
  if (match.kind === "wrong-method") {
    const problem = problemOf(
      new AppError("feature.unsupported", `${method} is not possible here; use ${match.allowed.join(", ")}`),
      progress.requestId,
    );
    const refused = { ...problem, status: 405 };
    return { status: 405, body: refused, problem: refused, headers: { Allow: match.allowed.join(", ") } };
  }
  const { route, params } = match;
  progress.route = route;
  progress.params = params;

  const credentials = credentialsOf(req, method, path, progress.clientAddress);
  const anonymous = "allow" in route.permission && route.permission.allow === "anonymous";
  if (!anonymous) {
    progress.actor = await authenticate(deps, credentials);
    markKnown(req.socket);
  }
  const abort = new AbortController();
  res.on("close", () => abort.abort(new AppError("operation.cancelled", "the client closed the connection")));
  const ctx: RequestContext = {
    requestId: progress.requestId,
    actor: progress.actor,
    access: deps.accessOf(progress.actor),
    signal: AbortSignal.any([abort.signal, deps.shutdown]),
    log: deps.log,
    clientAddress: progress.clientAddress,
    ...given({ traceparent, host: req.headers.host }),
  };
  const { tenant } = params;
  let isRead = false;
  const readBody = async (): Promise<unknown> => {
    if (!isRead) progress.body = await readJson(req, bodyTerms(progress.actor, progress.clientAddress));
    isRead = true;
    return progress.body;
  };
  const queryText = url.slice(path.length + 1);
  const isRepeatable = req.headers["idempotency-key"] !== undefined;
  const { object, id, of } = await permittedObject(
    server,
    route,
    { params, queryText, readBody, isRepeatable },
    ctx,
  );
  // Whose it was, where the path does not say.
  if (id !== undefined) progress.params = { ...params, ...given({ tenant: of }) };
  const asked = readQuery(route, queryText);
  const query = route.verb === "list" ? queryIn(tenant, asked) : asked;
  if (route.kind !== undefined && (query["watch"] === "1" || query["watch"] === "true")) {
    await watchOperation({ ...server, credentials }, { route, query, ctx, req, res });
    return "streamed";
  }
  const body = bodyIn(tenant, checkedBody(server, route, wholeObject(route, tenant, await readBody())));
  const meant = id === undefined ? params : { ...params, name: id };
  const { name: called } = params;
  const call: Call = {
    params: meant,
    ...given({ called, tenant: of }),
    query,
    body,
    ctx,
    object,
    once: onceOf(req, route, path, progress),
  };
  const reply = await run(server, route, call);
  return {
    status: reply.status ?? route.response.status,
    body: reply.body,
    ...(reply.headers ? { headers: reply.headers } : {}),
  };
}

function pathOf(url: string): string {
  const cut = url.indexOf("?");
  return cut === -1 ? url : url.slice(0, cut);
}

function run(server: Server, route: V1Route, call: Call): Promise<Reply> | Reply {
  if (route.kind !== undefined && route.verb !== undefined) {
    return objectOperation(server.service, route.kind, route.verb, call);
  }
  return server.fixed[route.operationId.replace(/InTenant$/, "") as FixedOperation](call);
}

interface Permitted {
  /** The one the route is on, if it is on one. */
  readonly object?: V1Object;
  /** Where that is not its name. */
  readonly id?: string;
  /** The tenant whose it is, or was. */
  readonly of?: string;
}

/** Permission before parameters. */
async function permittedObject(
  server: Server,
  route: V1Route,
  asked: {
    readonly params: Readonly<Record<string, string>>;
    readonly queryText: string;
    readonly readBody: () => Promise<unknown>;
    readonly isRepeatable: boolean;
  },
  ctx: RequestContext,
): Promise<Permitted> {
  const { name, tenant } = asked.params as Partial<Record<string, string>>;
  const { kind = route.on, permission } = route;
  if (kind?.namesInTenant === true && name !== undefined) {
    await server.deps.records.fresh({ signal: ctx.signal });
    const said = new URLSearchParams(asked.queryText).get("tenant") ?? undefined;
    const isBoth = tenant !== undefined && said !== undefined && tenant !== said;
    const takesObject = route.verb === "replace" || route.verb === "patch";
    const found = await namedObject(
      server.service.cache(kind.kind),
      {
        kind,
        permission,
        name,
        tenant: tenant ?? said,
        tenantInBody: async () => (takesObject ? namespaceIn(await asked.readBody()) : undefined),
        mayBeGone: route.verb === "delete" && asked.isRepeatable,
        ...(route.outlives === true ? { left: () => server.deps.vclusterSaves.tenantsOf(name) } : {}),
      },
      ctx,
    );
    if (isBoth) throw notFound(kind.kind, name);
    return { id: found.id, ...given({ object: found.object, of: found.tenant }) };
  }
  const object = await permittedByName(server, route, name, ctx);
  if (kind !== undefined) requireIn(tenant, server.service, kind.kind, name);
  return given({ object });
}

async function permittedByName(
  server: Server,
  route: V1Route,
  name: string | undefined,
  ctx: RequestContext,
): Promise<V1Object | undefined> {
  if (route.kind !== undefined) {
    // Lists show what may be seen; what is to be created is judged with its body.
    if (name !== undefined && route.verb !== undefined) {
      await server.service.requireVerb(route.kind.kind, route.verb, name, ctx);
    }
    return undefined;
  }
  if (route.on === undefined || name === undefined) {
    requireMay(route.permission, ctx, name === undefined ? {} : { current: { metadata: { name } } });
    return undefined;
  }
  await server.deps.records.fresh({ signal: ctx.signal });
  const object = server.service.cache(route.on.kind).get(name);
  requireMay(route.permission, ctx, { current: object ?? { metadata: { name } } });
  if (object === undefined) throw notFound(route.on.kind, name);
  return object;
}

async function authenticate(deps: V1Deps, credentials: Credentials): Promise<Actor> {
  const { actor } = await deps.authenticate(credentials);
  if (actor === undefined)
    throw new AppError("auth.required", "this needs credentials: log in or send an API token");
  return actor;
}

function checkedBody(server: Server, route: V1Route, body: unknown): unknown {
  if (route.body === undefined) {
    // Many clients cannot send none.
    if (body === undefined || (route.method === "POST" && isEmpty(body))) return undefined;
    throw new AppError("request.invalid", `${route.method} takes no body here`);
  }
  if (body === undefined && !isOptionalBody(route.body))
    throw new AppError("request.invalid", "the request needs a JSON body");
  // Objects are checked by their kind, after permission was judged on them.
  if (route.body === "object" || (route.method === "PATCH" && route.kind !== undefined)) return body;
  return server.validator.check(route.body, body ?? {}, "the body");
}

function isEmpty(body: unknown): boolean {
  return isObject(body) && Object.keys(body).length === 0;
}

function onceOf(
  req: IncomingMessage,
  route: V1Route,
  path: string,
  progress: Progress,
): IdempotentRequest | undefined {
  const key = req.headers["idempotency-key"];
  if (key === undefined || route.method === "GET" || progress.actor === undefined) return undefined;
  const text = Array.isArray(key) ? key.join(",") : key;
  return idempotentRequest(
    text,
    progress.actor.authid,
    route.method,
    path + (req.url ?? "").slice(path.length),
    withoutRouteSecrets(route, progress.body),
  );
}

function credentialsOf(
  req: IncomingMessage,
  method: string,
  path: string,
  clientAddress: string,
): Credentials {
  const csrf = req.headers["csrfpreventiontoken"];
  return {
    method,
    path,
    cookieTicket: /(?:^|[;\s])PVEAuthCookie=([^;\s]*)/.exec(req.headers.cookie ?? "")?.[1],
    authorization: req.headers.authorization,
    csrfToken: Array.isArray(csrf) ? csrf[0] : csrf,
    clientAddress,
  };
}
