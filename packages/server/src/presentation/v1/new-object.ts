// What a request for an object may leave out: for some kinds all but the fields of its spec, and for a new one the tenant.
import { type Fields, isObject } from "@gpve/contracts/json-object.ts";
import { API_VERSION } from "@gpve/contracts/v1/object.ts";
import type { V1Route } from "@gpve/contracts/v1/routes.ts";
import type { Tenant } from "./tenant-scope.ts";

/** Of which a change that is said whole has one at least. */
const WHOLE = ["apiVersion", "kind", "metadata", "spec", "status"] as const;

export function wholeObject(
  { kind, verb }: Pick<V1Route, "kind" | "verb">,
  tenant: Tenant,
  body: unknown,
): unknown {
  if (kind === undefined || !isObject(body)) return body;
  if (verb === "patch" && kind.flatBody === true)
    return WHOLE.some((word) => word in body) ? body : { spec: body };
  if (verb !== "create") return body;
  const whole = kind.flatBody === true ? wholeBody(kind.kind, body) : body;
  const { defaultNamespace } = kind;
  const metadata = isObject(whole["metadata"]) ? whole["metadata"] : undefined;
  if (metadata === undefined || defaultNamespace === undefined || tenant !== undefined) return whole;
  return { ...whole, metadata: { namespace: defaultNamespace, ...metadata } };
}

/** What is said flat has neither metadata nor spec; what has one of them may go without the words that the path says too. */
function wholeBody(kind: string, body: Fields): Fields {
  const words = { apiVersion: API_VERSION, kind };
  if ("metadata" in body) return { ...words, ...body };
  const { name, apiVersion = words.apiVersion, kind: said = kind, ...rest } = body;
  const more = "spec" in body ? rest : { spec: rest };
  return { apiVersion, kind: said, metadata: { name }, ...more };
}
