// Index methods: GETs that only list their child paths. They are derived from the method table, so every level of the
// tree can be walked without a handler of its own.
import { pveRoutes } from "@gpve/contracts/pve/routes.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import { indexChildren, pveMethods } from "./method-table.ts";

const declaredPaths = new Set(Object.keys(pveRoutes).map((key) => key.slice(key.indexOf(" ") + 1)));
const withParamChild = new Set(
  pveMethods.flatMap(({ path }) => [...path.matchAll(/\/\{/g)].map((at) => path.slice(0, at.index))),
);

/** Rows of an index, or undefined when the method is none. Only children under which something is implemented. */
export function staticIndexRows(method: PveMethod): readonly Record<string, string>[] | undefined {
  const key = indexKey(method);
  if (key === undefined) return undefined;
  return indexChildren(method.path)
    .filter((child) => hasImplementation(`${method.path}/${child}`))
    .map((child) => ({ [key]: child }));
}

export function isStaticIndex(method: PveMethod): boolean {
  return indexKey(method) !== undefined;
}

/** Whether calling this method does something here: declared with a handler, or a derived index. */
export function isImplemented(method: PveMethod): boolean {
  return Object.hasOwn(pveRoutes, `${method.method} ${method.path}`) || isStaticIndex(method);
}

function indexKey(method: PveMethod): string | undefined {
  if (method.method !== "GET" || method.returns.type !== "array") return undefined;
  if (Object.hasOwn(pveRoutes, `GET ${method.path}`) || withParamChild.has(method.path)) return undefined;
  const href = method.links?.[0]?.href;
  const key = href === undefined ? undefined : /^\{(\w+)\}$/.exec(href)?.[1];
  return key !== undefined && indexChildren(method.path).length > 0 ? key : undefined;
}

function hasImplementation(path: string): boolean {
  for (const declared of declaredPaths) {
    if (declared === path || declared.startsWith(`${path}/`)) return true;
  }
  return false;
}
