// What a request for a new object may leave out: for some kinds all but the fields of its spec, and the tenant.
import { API_VERSION } from "@gpve/contracts/v1/object.ts";
import type { V1Route } from "@gpve/contracts/v1/routes.ts";
import type { Tenant } from "./tenant-scope.ts";

type Fields = Readonly<Record<string, unknown>>;

export function newObject(route: V1Route, tenant: Tenant, body: unknown): unknown {
  const { kind, verb } = route;
  if (kind === undefined || verb !== "create" || !isFields(body)) return body;
  const whole = kind.flatBody === true ? wholeBody(kind.kind, body) : body;
  const { defaultNamespace } = kind;
  const metadata = isFields(whole["metadata"]) ? whole["metadata"] : undefined;
  if (metadata === undefined || defaultNamespace === undefined || tenant !== undefined) return whole;
  return { ...whole, metadata: { namespace: defaultNamespace, ...metadata } };
}

/** What is said flat has neither metadata nor spec; what has them may go without the words that the path says too. */
function wholeBody(kind: string, body: Fields): Fields {
  const words = { apiVersion: API_VERSION, kind };
  if ("metadata" in body || "spec" in body) return { ...words, ...body };
  const { name, ...spec } = body;
  return { ...words, metadata: { name }, spec };
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
