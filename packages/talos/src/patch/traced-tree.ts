// A YAML value in which every part knows where it comes from.
import type { ConfigDocument, Value } from "../config/document.ts";

export type Scalar = string | number | boolean | null;

export interface TracedMap {
  readonly kind: "map";
  readonly source: string;
  readonly entries: Map<string, Traced>;
}

export interface TracedList {
  readonly kind: "list";
  readonly source: string;
  readonly items: Traced[];
}

export interface TracedScalar {
  readonly kind: "scalar";
  readonly source: string;
  readonly value: Scalar;
}

export type Traced = TracedMap | TracedList | TracedScalar;

export function trace(value: Value, source: string): Traced {
  if (typeof value !== "object" || value === null) return { kind: "scalar", source, value };
  if (Array.isArray(value)) {
    return { kind: "list", source, items: (value as readonly Value[]).map((item) => trace(item, source)) };
  }
  return traceMap(value as ConfigDocument, source);
}

export function traceMap(value: ConfigDocument, source: string): TracedMap {
  return {
    kind: "map",
    source,
    entries: new Map(Object.entries(value).map(([key, item]) => [key, trace(item, source)])),
  };
}

export function plain(node: Traced): Value {
  switch (node.kind) {
    case "scalar":
      return node.value;
    case "list":
      return node.items.map(plain);
    case "map":
      return plainMap(node);
  }
}

export function plainMap(node: TracedMap): ConfigDocument {
  return Object.fromEntries([...node.entries].map(([key, item]) => [key, plain(item)]));
}

export function childOf(node: Traced, key: string): Traced | undefined {
  if (node.kind === "map") return node.entries.get(key);
  if (node.kind === "list" && /^\d+$/.test(key)) return node.items[Number(key)];
  return undefined;
}

/** A scalar as text; undefined for anything else. */
export function textOf(node: Traced | undefined): string | undefined {
  return node?.kind === "scalar" && node.value !== null ? String(node.value) : undefined;
}

/** What a person calls it. */
export function nameOfKind(node: Traced): string {
  return node.kind === "scalar" ? "a single value" : `a ${node.kind}`;
}
