// The OpenAPI 3.1 document of /api/v1, derived from the declarations. Nothing in it is written twice.
import type { KindDeclaration } from "./kind.ts";
import { v1Kinds } from "./kinds.ts";
import { API_VERSION, ObjectMetaInputSchema, ObjectMetaSchema } from "./object.ts";
import type { Schema } from "./object.ts";
import { describePermission } from "./permission.ts";
import { PROBLEM_TYPE, ProblemSchema } from "./problem.ts";
import { isOptionalBody } from "./optional-body.ts";
import { V1_PREFIX, v1Routes } from "./routes.ts";
import type { V1Route } from "./routes.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

export interface OpenApiDocument {
  readonly openapi: "3.1.0";
  readonly info: JsonObject;
  readonly servers: readonly JsonObject[];
  readonly security: readonly JsonObject[];
  readonly tags: readonly JsonObject[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonObject>>;
    readonly securitySchemes: JsonObject;
    readonly responses: JsonObject;
    readonly parameters: JsonObject;
  };
}

const SWITCHING = 101;

export const securitySchemes = {
  ticket: { type: "apiKey", in: "cookie", name: "PVEAuthCookie", description: "Changes also need csrf." },
  csrf: { type: "apiKey", in: "header", name: "CSRFPreventionToken" },
  token: {
    type: "apiKey",
    in: "header",
    name: "Authorization",
    description: "PVEAPIToken=USER@REALM!TOKENID=SECRET",
  },
} as const;

export function openApiOfV1(options: {
  readonly version: string;
  readonly kinds?: readonly KindDeclaration[];
}): OpenApiDocument {
  const kinds = options.kinds ?? v1Kinds;
  const paths: Record<string, Record<string, JsonObject>> = {};
  for (const route of v1Routes(kinds)) {
    const path = `${V1_PREFIX}${route.path}`;
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "gpve",
      version: options.version,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      description: "Declarative objects with metadata, spec and status; watchable, with plan and apply.",
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }, { ticket: [] }, { ticket: [], csrf: [] }],
    tags: [{ name: "general" }, ...kinds.map((kind) => ({ name: kind.kind, description: kind.description }))],
    paths,
    components: {
      schemas: schemasOf(kinds),
      securitySchemes,
      responses: {
        Problem: {
          description: "Refused or failed; `code` is stable.",
          content: { [PROBLEM_TYPE]: { schema: ref("Problem") } },
        },
      },
      parameters: {
        IdempotencyKey: {
          name: "Idempotency-Key",
          in: "header",
          required: false,
          description: "Repeating a change under the same key within 24 hours gives the first answer again.",
          schema: { type: "string", minLength: 1, maxLength: 255 },
        },
      },
    },
  };
}

function operationOf(route: V1Route): JsonObject {
  const parameters: JsonObject[] = [...route.path.matchAll(/\{([^}]+)\}/g)].map((match) => ({
    name: match[1],
    in: "path",
    required: true,
    schema: { type: "string", minLength: 1 },
  }));
  for (const query of route.query ?? []) {
    parameters.push({
      name: query.name,
      in: "query",
      required: false,
      description: query.description,
      schema: query.schema,
    });
  }
  if (route.method !== "GET") parameters.push({ $ref: "#/components/parameters/IdempotencyKey" });
  const bodyType = route.method === "PATCH" ? "application/merge-patch+json" : "application/json";
  return {
    operationId: route.operationId,
    summary: route.summary,
    tags: [route.kind?.kind ?? "general"],
    ...("allow" in route.permission && route.permission.allow === "anonymous" ? { security: [] } : {}),
    parameters,
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: !isOptionalBody(route.body),
            content: {
              [bodyType]: { schema: route.body === "object" ? ref(`${kindName(route)}Input`) : route.body },
            },
          },
        }),
    responses: {
      [String(route.response.status)]:
        route.response.status === SWITCHING
          ? { description: "A websocket" }
          : { description: "Done", content: contentOf(route) },
      default: { $ref: "#/components/responses/Problem" },
    },
    "x-gpve-permission": { rule: route.permission, text: describePermission(route.permission) },
    "x-gpve-audit": route.audit,
  };
}

function contentOf(route: V1Route): JsonObject {
  const { schema } = route.response;
  if (schema === "list") {
    return {
      "application/json": { schema: ref(`${kindName(route)}List`) },
      "text/event-stream": {
        schema: {
          type: "string",
          description: "With watch=1: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR events.",
        },
      },
    };
  }
  if (schema === "png") return { "image/png": { schema: { type: "string", format: "binary" } } };
  if (schema === "object") return { "application/json": { schema: ref(kindName(route)) } };
  return { "application/json": { schema: schema === "any" ? {} : schema } };
}

function schemasOf(kinds: readonly KindDeclaration[]): Record<string, JsonObject> {
  const schemas: Record<string, JsonObject> = {
    ObjectMeta: asJson(ObjectMetaSchema),
    ObjectMetaInput: asJson(ObjectMetaInputSchema),
    Problem: asJson(ProblemSchema),
  };
  for (const kind of kinds) {
    schemas[`${kind.kind}Spec`] = asJson(kind.spec);
    schemas[`${kind.kind}Status`] = asJson(kind.status);
    schemas[kind.kind] = objectSchema(kind, false);
    schemas[`${kind.kind}Input`] = objectSchema(kind, true);
    schemas[`${kind.kind}List`] = listSchema(kind);
  }
  return schemas;
}

function objectSchema(kind: KindDeclaration, input: boolean): JsonObject {
  return {
    type: "object",
    description: kind.description,
    required: input
      ? ["apiVersion", "kind", "metadata", "spec"]
      : ["apiVersion", "kind", "metadata", "spec", "status"],
    properties: {
      apiVersion: { const: API_VERSION },
      kind: { const: kind.kind },
      metadata: ref(input ? "ObjectMetaInput" : "ObjectMeta"),
      spec: ref(`${kind.kind}Spec`),
      status: input ? { description: "Ignored." } : ref(`${kind.kind}Status`),
    },
    additionalProperties: false,
  };
}

function listSchema(kind: KindDeclaration): JsonObject {
  return {
    type: "object",
    required: ["apiVersion", "kind", "metadata", "items"],
    properties: {
      apiVersion: { const: API_VERSION },
      kind: { const: `${kind.kind}List` },
      metadata: {
        type: "object",
        required: ["resourceVersion"],
        properties: {
          resourceVersion: { type: "string" },
          continue: { type: "string" },
          remainingItemCount: { type: "integer", minimum: 0 },
        },
        additionalProperties: false,
      },
      items: { type: "array", items: ref(kind.kind) },
    },
    additionalProperties: false,
  };
}

function kindName(route: V1Route): string {
  return route.kind?.kind ?? "Unknown";
}

function ref(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

/** typebox marks schemas with hidden properties; a document wants plain JSON. */
function asJson(schema: Schema): JsonObject {
  return JSON.parse(JSON.stringify(schema)) as JsonObject;
}
