// The declared PVE methods as an OpenAPI 3.1 document, for tools that read no PVE schema.
import type { PveMethod, PvePermission, PveSchema } from "../pve/schema.ts";
import { securitySchemes } from "./openapi.ts";
import type { JsonObject, OpenApiDocument } from "./openapi.ts";

const JSON_TYPES: ReadonlySet<string> = new Set([
  "string",
  "integer",
  "number",
  "boolean",
  "array",
  "object",
  "null",
]);

const AUDIT = { GET: "none", POST: "write", PUT: "write", DELETE: "write" } as const;

export function openApiOfPve(options: {
  readonly version: string;
  readonly methods: readonly PveMethod[];
  /** Whether this server really has the method. */
  readonly implemented: (method: PveMethod) => boolean;
}): OpenApiDocument {
  const paths: Record<string, Record<string, JsonObject>> = {};
  for (const method of options.methods) {
    const path = `/api2/json${method.path === "/" ? "" : method.path}`;
    paths[path] = {
      ...paths[path],
      [method.method.toLowerCase()]: operationOf(method, options.implemented(method)),
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "gpve, the Proxmox VE face",
      version: options.version,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }, { ticket: [] }, { ticket: [], csrf: [] }],
    tags: [...new Set(options.methods.map((method) => areaOf(method.path)))].map((name) => ({ name })),
    paths,
    components: {
      schemas: {},
      securitySchemes,
      responses: {
        Refused: {
          description: "The reason phrase and `message` carry the error text.",
          content: {
            "application/json": {
              schema: {
                type: "object",
                properties: {
                  data: { type: "null" },
                  message: { type: "string" },
                  errors: { type: "object", additionalProperties: { type: "string" } },
                },
              },
            },
          },
        },
      },
      parameters: {},
    },
  };
}

/** The first part of the path: access, cluster, nodes, ... */
export function areaOf(path: string): string {
  return path.split("/")[1] ?? "";
}

/** PVE's schema dialect to JSON Schema: `optional` becomes `required`, run-time enumerations are left open. */
export function jsonSchemaOf(schema: PveSchema): JsonObject {
  const json: Record<string, unknown> = {};
  // Upstream also says "any", which in JSON Schema is saying nothing.
  if (schema.type !== undefined && JSON_TYPES.has(schema.type)) json["type"] = schema.type;
  if (schema.enum !== undefined && schema.enum !== null) json["enum"] = [...schema.enum];
  for (const key of ["minimum", "maximum", "minLength", "maxLength"] as const) {
    if (schema[key] !== undefined) json[key] = schema[key];
  }
  if (schema.default !== undefined) json["default"] = schema.default;
  if (schema.pattern !== undefined && compiles(schema.pattern)) json["pattern"] = schema.pattern;
  if (typeof schema.format === "string") json["x-pve-format"] = schema.format;
  if (schema.items !== undefined) json["items"] = jsonSchemaOf(schema.items);
  if (schema.oneOf !== undefined) json["anyOf"] = schema.oneOf.map(jsonSchemaOf);
  if (schema.properties !== undefined) {
    const entries = Object.entries(schema.properties);
    json["properties"] = Object.fromEntries(entries.map(([name, part]) => [name, jsonSchemaOf(part)]));
    const required = entries.filter(([, part]) => part.optional !== true).map(([name]) => name);
    if (required.length > 0) json["required"] = required;
  }
  return json;
}

function operationOf(method: PveMethod, implemented: boolean): JsonObject {
  const inPath = new Set([...method.path.matchAll(/\{([^}]+)\}/g)].map((match) => match[1]));
  const all = Object.entries(method.parameters);
  const parameters: JsonObject[] = [...inPath].map((name) => ({
    name,
    in: "path",
    required: true,
    schema: jsonSchemaOf((name === undefined ? undefined : method.parameters[name]) ?? { type: "string" }),
  }));
  const rest = all.filter(([name]) => !inPath.has(name));
  const inQuery = method.method === "GET" || method.method === "DELETE";
  if (inQuery) {
    for (const [name, schema] of rest) {
      parameters.push({
        name,
        in: "query",
        required: schema.optional !== true,
        schema: jsonSchemaOf(schema),
      });
    }
  }
  const required = rest.filter(([, schema]) => schema.optional !== true).map(([name]) => name);
  const body = {
    type: "object",
    properties: Object.fromEntries(rest.map(([name, schema]) => [name, jsonSchemaOf(schema)])),
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: method.additionalProperties,
  };
  return {
    operationId: `${method.method} ${method.path}`,
    summary: method.name,
    tags: [areaOf(method.path)],
    ...(isWorld(method.permissions) ? { security: [] } : {}),
    parameters,
    ...(inQuery || rest.length === 0
      ? {}
      : {
          requestBody: {
            required: required.length > 0,
            content: {
              "application/x-www-form-urlencoded": { schema: body },
              "application/json": { schema: body },
            },
          },
        }),
    responses: {
      "200": {
        description: "Done",
        content: {
          "application/json": {
            schema: {
              type: "object",
              properties: { data: jsonSchemaOf(method.returns) },
              required: ["data"],
            },
          },
        },
      },
      default: { $ref: "#/components/responses/Refused" },
    },
    "x-gpve-permission": method.permissions ?? "root@pam",
    "x-gpve-audit": AUDIT[method.method],
    "x-gpve-implemented": implemented,
  };
}

function isWorld(permission: PvePermission): boolean {
  return permission !== null && permission.user === "world";
}

/** Upstream patterns are Perl's; one that is not also ECMA's is left to the server. */
function compiles(pattern: string): boolean {
  try {
    return new RegExp(pattern, "u").source !== "";
  } catch {
    return false;
  }
}
