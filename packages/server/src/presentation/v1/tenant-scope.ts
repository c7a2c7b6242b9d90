// The paths below a tenant: the same answers as the flat ones, with what is not the tenant's left out.
import { AppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/contracts/json-object.ts";
import { notFound } from "../../application/v1/object-service.ts";
import type { ObjectService } from "../../application/v1/object-service.ts";

/** undefined: not below a tenant. */
export type Tenant = string | undefined;

/** Of a list or watch. */
export function queryIn(
  tenant: Tenant,
  query: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  if (tenant === undefined) return query;
  const { fieldSelector } = query;
  const own = `metadata.namespace=${tenant}`;
  return {
    ...query,
    fieldSelector: fieldSelector === undefined || fieldSelector === "" ? own : `${own},${fieldSelector}`,
  };
}

/** An object is made in the tenant of its path; one that names another is refused. */
export function bodyIn(tenant: Tenant, body: unknown): unknown {
  if (tenant === undefined || !isObject(body)) return body;
  const metadata = isObject(body["metadata"]) ? body["metadata"] : {};
  const { namespace = tenant } = metadata;
  if (namespace !== tenant)
    throw new AppError("request.invalid", `metadata.namespace is not '${tenant}', as in the path`, {
      errors: { "metadata.namespace": `must be '${tenant}', as in the path, or left out` },
    });
  return { ...body, metadata: { ...metadata, namespace } };
}

/** The tenant that a body names. */
export function namespaceIn(body: unknown): Tenant {
  const metadata = isObject(body) ? body["metadata"] : undefined;
  const namespace = isObject(metadata) ? metadata["namespace"] : undefined;
  return typeof namespace === "string" ? namespace : undefined;
}

/** An object of another tenant is not there. Asked after permission was judged. */
export function requireIn(
  tenant: Tenant,
  service: ObjectService,
  kind: string,
  name: string | undefined,
): void {
  if (tenant === undefined || name === undefined) return;
  if (service.cache(kind).get(name)?.metadata.namespace !== tenant) throw notFound(kind, name);
}
