import type { KindDeclaration } from "./kind.ts";
import { type QueryParameter, text } from "./query-parameters.ts";

interface ObjectRoute {
  readonly path: string;
  readonly query?: readonly QueryParameter[];
  readonly kind?: KindDeclaration;
  readonly on?: KindDeclaration;
}

/** Where a name alone may be several's, a path without a tenant takes it as a parameter. */
export function withTenant<R extends ObjectRoute>(route: R): R {
  const { query = [], path } = route;
  if ((route.kind ?? route.on)?.namesInTenant !== true || !path.includes("{name}")) return route;
  if (query.some(({ name }) => name === "tenant")) return route;
  const tenant = text("tenant", "Whose it is, where several tenants have one of that name.");
  return { ...route, query: [...query, tenant] };
}
