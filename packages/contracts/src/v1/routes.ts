// Every route of /api/v1 as data. The router, the OpenAPI document and the tests read this;
// a route without permission and audit rule does not compile.
import { Type } from "typebox";
import type { KindDeclaration, Verb } from "./kind.ts";
import { v1Kinds } from "./kinds.ts";
import { nodeKind } from "./kinds/node.ts";
import { taskKind } from "./kinds/task.ts";
import type { Schema } from "./object.ts";
import { anonymous, anyOf, authenticated, owner, privilege } from "./permission.ts";
import type { V1Permission } from "./permission.ts";
import {
  ApplyRequestSchema,
  ApplyResultSchema,
  AuditPageSchema,
  AuditVerdictSchema,
  CoverageSchema,
  DiscoverySchema,
  HealthSchema,
  PlanResultSchema,
  TaskLogSchema,
  TaskRefSchema,
} from "./bodies.ts";
import { clusterRoutes } from "./cluster-routes.ts";
import { componentRoutes } from "./component-routes.ts";
import { haRoutes } from "./ha-routes.ts";
import { count, text, type QueryParameter } from "./query-parameters.ts";
import { withTenant } from "./tenant-query.ts";
import { vcRoutes } from "./vc-routes.ts";
import { vcSaveRoutes } from "./vc-save-routes.ts";
import { schedulerRoutes } from "./scheduler-routes.ts";
import { vmRoutes } from "./vm-routes.ts";

export const V1_PREFIX = "/api/v1";

export type HttpMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface V1Route {
  readonly operationId: string;
  readonly method: HttpMethod;
  /** Below /api/v1; `{name}` matches one segment and is percent-decoded after the split. */
  readonly path: string;
  readonly summary: string;
  /** Per-object rules are checked on each object; what may not be read is left out of lists. */
  readonly permission: V1Permission;
  /** What the audit log keeps: nothing, that it was read, or that it was changed. */
  readonly audit: "none" | "read" | "write";
  readonly query?: readonly QueryParameter[];
  readonly body?: Schema | "object";
  readonly response: { readonly status: number; readonly schema: Schema | "object" | "list" | "any" | "png" };
  readonly kind?: KindDeclaration;
  readonly verb?: Verb;
  /** The kind whose object `{name}` is: the permission is judged on it, and 404 answers its absence. */
  readonly on?: KindDeclaration;
  /** What it is about may be there when the object is gone: the tenant that it would be in is judged, and the operation answers. */
  readonly outlives?: true;
}

export const selectorQuery: readonly QueryParameter[] = [
  text("labelSelector", "a=b,c!=d,e in (x,y),f,!g"),
  text("fieldSelector", "metadata.name=x, or a field the kind offers"),
];

export const listQuery: readonly QueryParameter[] = [
  ...selectorQuery,
  count("limit", "At most so many items; the answer then has metadata.continue.", 10_000),
  text("continue", "The token of the page before."),
  {
    name: "watch",
    description: "1 = server-sent events instead of a list.",
    schema: Type.Enum(["0", "1", "true", "false"]),
  },
  text("resourceVersion", "With watch: events after this version; absent = all objects first."),
];

const preconditionQuery: readonly QueryParameter[] = [
  text("resourceVersion", "Refuse with 409 unless the object still has this version."),
];

/** The routes of one kind, by its verbs. */
export function routesOfKind(kind: KindDeclaration): readonly V1Route[] {
  const collection = `/${kind.plural}`;
  const one = `${collection}/{name}`;
  const base = (
    verb: Verb,
    permission: V1Permission,
  ): Pick<V1Route, "operationId" | "permission" | "kind" | "verb"> => ({
    operationId: `${verb}${verb === "list" ? plural(kind) : kind.kind}`,
    permission,
    kind,
    verb,
  });
  const routes: V1Route[] = [];
  const { list, get, create, replace, patch, delete: remove } = kind.permissions;
  if (list !== undefined) {
    routes.push({
      ...base("list", list),
      method: "GET",
      path: collection,
      summary: `List or watch ${kind.plural}`,
      audit: "none",
      query: listQuery,
      response: { status: 200, schema: "list" },
    });
  }
  if (get !== undefined) {
    routes.push({
      ...base("get", get),
      method: "GET",
      path: one,
      summary: `Read one ${kind.kind}`,
      audit: "none",
      response: { status: 200, schema: "object" },
    });
  }
  if (create !== undefined) {
    routes.push({
      ...base("create", create),
      method: "POST",
      path: collection,
      summary: `Create a ${kind.kind}`,
      audit: "write",
      ...(kind.waitedCreate === undefined
        ? {}
        : {
            query: [
              {
                name: "wait",
                description: kind.waitedCreate,
                schema: Type.Enum(["0", "1", "true", "false"]),
              },
            ],
          }),
      body: "object",
      response: { status: 201, schema: "object" },
    });
  }
  if (replace !== undefined) {
    routes.push({
      ...base("replace", replace),
      method: "PUT",
      path: one,
      summary: `Replace a ${kind.kind}`,
      audit: "write",
      body: "object",
      response: { status: 200, schema: "object" },
    });
  }
  if (patch !== undefined) {
    routes.push({
      ...base("patch", patch),
      method: "PATCH",
      path: one,
      summary: `Change fields of a ${kind.kind} by JSON merge patch (RFC 7396)`,
      audit: "write",
      body: Type.Unsafe({ type: "object", additionalProperties: true }),
      response: { status: 200, schema: "object" },
    });
  }
  if (remove !== undefined) {
    routes.push({
      ...base("delete", remove),
      method: "DELETE",
      path: one,
      summary: `Delete a ${kind.kind}`,
      audit: "write",
      query: [
        ...preconditionQuery,
        ...(kind.forcedDelete === undefined
          ? []
          : [
              {
                name: "force",
                description: kind.forcedDelete,
                schema: Type.Enum(["0", "1", "true", "false"]),
              },
            ]),
      ],
      response: { status: 200, schema: "object" },
    });
  }
  return routes;
}

/** What is not a plain object of a kind. */
export const fixedRoutes = [
  {
    operationId: "discover",
    method: "GET",
    path: "",
    summary: "Kinds, their verbs and columns, and the extensions this server has",
    permission: authenticated,
    audit: "none",
    response: { status: 200, schema: DiscoverySchema },
  },
  {
    operationId: "health",
    method: "GET",
    path: "/healthz",
    summary: "Whether the process is alive",
    permission: anonymous,
    audit: "none",
    response: { status: 200, schema: HealthSchema },
  },
  {
    operationId: "ready",
    method: "GET",
    path: "/readyz",
    summary: "Whether the server can do its work; 503 with reasons when not",
    permission: anonymous,
    audit: "none",
    response: { status: 200, schema: HealthSchema },
  },
  {
    operationId: "openapi",
    method: "GET",
    path: "/openapi.json",
    summary: "This API as an OpenAPI 3.1 document",
    permission: anonymous,
    audit: "none",
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "openapiPve",
    method: "GET",
    path: "/openapi-api2.json",
    summary: "The declared PVE methods of /api2/json as an OpenAPI 3.1 document",
    permission: anonymous,
    audit: "none",
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "coverage",
    method: "GET",
    path: "/coverage",
    summary: "PVE methods implemented and known, per area",
    permission: authenticated,
    audit: "none",
    response: { status: 200, schema: CoverageSchema },
  },
  {
    operationId: "plan",
    method: "POST",
    path: "/plan",
    summary: "What applying these objects would change; changes nothing",
    permission: authenticated,
    audit: "none",
    body: ApplyRequestSchema,
    response: { status: 200, schema: PlanResultSchema },
  },
  {
    operationId: "apply",
    method: "POST",
    path: "/apply",
    summary: "Make these objects so: one durable operation, undone as a whole when a step fails",
    permission: authenticated,
    audit: "write",
    body: ApplyRequestSchema,
    response: { status: 202, schema: ApplyResultSchema },
  },
  {
    operationId: "listAudit",
    method: "GET",
    path: "/audit",
    summary: "The audit log, newest first",
    permission: privilege("/", "Sys.Audit"),
    audit: "read",
    query: [
      count("limit", "Entries at most.", 10_000),
      text("before", "Only entries before this sequence number."),
      text("user", "Only this user or token."),
      text("verb", "Only this verb: create, update, delete, read, login."),
      text("resource", "Only this declared path and what is below it."),
      text("status", "Only this status, 403, or class, 4xx."),
      text("since", "Only entries from this time (ISO 8601) on."),
      text("until", "Only entries before this time (ISO 8601)."),
    ],
    response: { status: 200, schema: AuditPageSchema },
  },
  {
    operationId: "verifyAudit",
    method: "GET",
    path: "/audit/verify",
    summary: "Whether the chain of the audit log is unbroken",
    permission: privilege("/", "Sys.Audit"),
    audit: "read",
    response: { status: 200, schema: AuditVerdictSchema },
  },
  {
    operationId: "cancelTask",
    method: "POST",
    path: "/tasks/{name}/cancel",
    summary: "Ask a task to stop",
    permission: anyOf(owner("spec.user"), privilege("/nodes/{spec.node}", "Sys.Modify")),
    on: taskKind,
    audit: "write",
    response: { status: 202, schema: TaskRefSchema },
  },
  {
    operationId: "taskLog",
    method: "GET",
    path: "/tasks/{name}/log",
    summary: "Lines of a task's log",
    permission: anyOf(owner("spec.user"), privilege("/nodes/{spec.node}", "Sys.Audit")),
    on: taskKind,
    audit: "none",
    query: [
      count("start", "First line, from 0.", Number.MAX_SAFE_INTEGER),
      count("limit", "Lines at most.", 50_000),
    ],
    response: { status: 200, schema: TaskLogSchema },
  },
  {
    operationId: "nodeCapabilities",
    method: "GET",
    path: "/nodes/{name}/capabilities",
    summary: "What a node can and cannot do, found by trying, with fixes",
    permission: privilege("/nodes/{name}", "Sys.Audit"),
    on: nodeKind,
    audit: "none",
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "probeNode",
    method: "POST",
    path: "/nodes/{name}/probe",
    summary: "Try a node's capabilities again, as an operation",
    permission: privilege("/nodes/{name}", "Sys.Modify"),
    on: nodeKind,
    audit: "write",
    response: { status: 202, schema: TaskRefSchema },
  },
  {
    operationId: "nodeImages",
    method: "GET",
    path: "/nodes/{name}/images",
    summary:
      "Images that can be pulled or built, and those that are there; needs Datastore.Audit or Datastore.AllocateSpace on the storage",
    // The node asks for the right to see the storage, which is named only in the query.
    permission: authenticated,
    on: nodeKind,
    audit: "none",
    query: [text("storage", "Where to look; default `storage.defaults` of the server.")],
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "pullImage",
    method: "POST",
    path: "/nodes/{name}/images/{image}/pull",
    summary: "Fetch an image and check it against its publisher's checksums, as an operation",
    permission: privilege("/nodes/{name}", "Sys.Modify"),
    on: nodeKind,
    audit: "write",
    query: [text("storage", "Where it goes; default `storage.defaults` of the server.")],
    response: { status: 202, schema: TaskRefSchema },
  },
  {
    operationId: "buildImage",
    method: "POST",
    path: "/nodes/{name}/images/{image}/build",
    summary: "Build an image from Debian packages, as an operation",
    permission: privilege("/nodes/{name}", "Sys.Modify"),
    on: nodeKind,
    audit: "write",
    query: [text("storage", "Where it goes; default `storage.defaults` of the server.")],
    response: { status: 202, schema: TaskRefSchema },
  },
  ...componentRoutes,
  ...haRoutes,
  ...vcRoutes,
  ...vcSaveRoutes,
  ...vmRoutes,
  ...clusterRoutes,
  ...schedulerRoutes,
] as const satisfies readonly V1Route[];

export type FixedOperation = (typeof fixedRoutes)[number]["operationId"];

export function v1Routes(kinds: readonly KindDeclaration[] = v1Kinds): readonly V1Route[] {
  const flat = kinds.flatMap(routesOfKind);
  const onObjects: readonly V1Route[] = fixedRoutes;
  const inTenant = [...flat, ...onObjects.filter(({ on }) => on !== undefined && kinds.includes(on))]
    .filter(({ kind, on }) => (kind ?? on)?.namespaced === true)
    .map(({ operationId, path, ...route }) => ({
      ...route,
      operationId: `${operationId}InTenant`,
      path: `/tenants/{tenant}${path}`,
    }));
  return [...onObjects.map(withTenant<V1Route>), ...flat.map(withTenant<V1Route>), ...inTenant];
}

/** "VirtualClusters" from plural "virtualclusters" keeps the kind's own capitals. */
function plural(kind: KindDeclaration): string {
  return kind.plural.startsWith(kind.kind.toLowerCase())
    ? kind.kind + kind.plural.slice(kind.kind.length)
    : `${kind.plural.charAt(0).toUpperCase()}${kind.plural.slice(1)}`;
}
