import type { V1Route } from "./routes.ts";

/** Nothing in it has to be said: no body at all says the same. */
export function isOptionalBody(body: V1Route["body"]): boolean {
  if (body === undefined || body === "object") return false;
  const { type, required = [] } = body as { readonly type?: string; readonly required?: readonly string[] };
  return type === "object" && required.length === 0;
}
