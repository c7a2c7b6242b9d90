// Every PVE method as a tree over path segments. The dispatcher asks it which method a decoded path means.
import api from "@gpve/contracts/gen/pve-api.json" with { type: "json" };
import type { PveMethod, PveVerb } from "@gpve/contracts/pve/schema.ts";
import { pathSegments } from "./path-segments.ts";

export type MethodMatch =
  | {
      readonly kind: "found";
      readonly method: PveMethod;
      /** `GET /nodes/{node}/qemu`: the key handlers are registered under. */
      readonly key: string;
      readonly pathParams: Readonly<Record<string, string>>;
    }
  | { readonly kind: "wrong-verb"; readonly allowed: readonly PveVerb[] }
  | { readonly kind: "unknown" };

interface Node {
  readonly literals: Map<string, Node>;
  param: { readonly name: string; readonly node: Node; readonly greedy: boolean } | undefined;
  readonly methods: Map<string, PveMethod>;
}

export const pveMethods: readonly PveMethod[] = api as unknown as readonly PveMethod[];

// Volume names and networks contain slashes, and a path is decoded before it is split.
const GREEDY = new Set(["volume", "cidr"]);

const newNode = (): Node => ({ literals: new Map(), param: undefined, methods: new Map() });
const root = newNode();
const byKey = new Map<string, PveMethod>();
const keys = new WeakMap<object, string>();
for (const method of pveMethods) {
  insert(method);
  const key = `${method.method} ${method.path}`;
  byKey.set(key, method);
  keys.set(method, key);
}

/** Made once for the methods of the table: a text put together for a request would be hashed for that request. */
export function methodKey(method: Pick<PveMethod, "method" | "path">): string {
  return keys.get(method) ?? `${method.method} ${method.path}`;
}

/** The method registered as `GET /nodes/{node}/qemu`. */
export function methodByKey(key: string): PveMethod | undefined {
  return byKey.get(key);
}

/** Segments are decoded and non-empty; `//` and a trailing `/` were dropped before. */
export function findMethod(verb: string, segments: readonly string[]): MethodMatch {
  const pathParams: Record<string, string> = {};
  let node = root;
  for (let at = 0; at < segments.length; at++) {
    const segment = segments[at] ?? "";
    const literal = node.literals.get(segment);
    if (literal !== undefined) {
      node = literal;
      continue;
    }
    const param = node.param;
    if (param === undefined) return { kind: "unknown" };
    node = param.node;
    if (param.greedy) {
      pathParams[param.name] = segments.slice(at).join("/");
      break;
    }
    pathParams[param.name] = segment;
  }
  const method = node.methods.get(verb);
  if (method !== undefined) return { kind: "found", method, key: methodKey(method), pathParams };
  if (node.methods.size === 0) return { kind: "unknown" };
  return { kind: "wrong-verb", allowed: [...node.methods.values()].map((each) => each.method) };
}

/** Names of the fixed children of a path template (`/nodes/{node}` -> `apt`, `ceph`, …), for index listings. */
export function indexChildren(template: string): readonly string[] {
  let node: Node | undefined = root;
  for (const segment of pathSegments(template)) {
    node = segment.startsWith("{") ? node.param?.node : node.literals.get(segment);
    if (node === undefined) return [];
  }
  return [...node.literals.keys()].sort();
}

function insert(method: PveMethod): void {
  let node = root;
  const segments = pathSegments(method.path);
  for (const [index, segment] of segments.entries()) {
    if (segment.startsWith("{")) {
      const name = segment.slice(1, -1);
      const greedy = index === segments.length - 1 && GREEDY.has(name);
      node.param ??= { name, node: newNode(), greedy };
      node = node.param.node;
      continue;
    }
    let child = node.literals.get(segment);
    if (child === undefined) {
      child = newNode();
      node.literals.set(segment, child);
    }
    node = child;
  }
  node.methods.set(method.method, method);
}
