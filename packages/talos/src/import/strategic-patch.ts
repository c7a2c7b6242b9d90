// Patches of operations (RFC 6902), as talhelper's documentation shows them, as strategic merge patches: Talos does not
// take the former for configurations of several documents, which they are from v1.12 on.
import { stringify } from "yaml";
import { mergeRule, V1ALPHA1 } from "../patch/merge-rules.ts";
import { isTree, textOf, type Tree } from "./imported-cluster.ts";

interface StrategicPatch {
  /** Empty when nothing could be said. */
  readonly text: string;
  /** Operations that have no counterpart. */
  readonly left: readonly string[];
}

const DELETE = { $patch: "delete" };

export function strategicPatch(operations: readonly unknown[]): StrategicPatch {
  const documents: Tree[] = [];
  const left: string[] = [];
  for (const operation of operations) {
    const said = isTree(operation) ? documentsOf(operation) : undefined;
    if (said === undefined) left.push(nameOf(operation));
    for (const document of said ?? []) {
      const last = documents.pop();
      const both = last === undefined ? document : joined(last, document);
      documents.push(...(both === undefined ? [last ?? {}, document] : [both]));
    }
  }
  return {
    text: documents.map((document) => stringify(document, { lineWidth: 0 })).join("---\n"),
    left,
  };
}

const nameOf = (operation: unknown): string =>
  isTree(operation)
    ? `${textOf(operation["op"]) ?? "an operation"} ${textOf(operation["path"]) ?? "without a path"}`
    : "what is no operation";

/** undefined: a merge cannot say it. Places in lists have no names there, and empty values change nothing. */
function documentsOf(operation: Tree): readonly Tree[] | undefined {
  const { op, path, value } = operation;
  if (typeof path !== "string" || !path.startsWith("/")) return undefined;
  const keys = path
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  const isAppended = keys.at(-1) === "-";
  const place = isAppended ? keys.slice(0, -1) : keys;
  if (place.length === 0 || place.some((key) => /^(\d+|-|)$/.test(key))) return undefined;
  if (op === "remove") return isAppended ? undefined : [nested(place, DELETE)];
  if ((op !== "add" && op !== "replace") || value === undefined || value === null) return undefined;
  if (value === "" || value === 0) return undefined;
  const isReplacing = mergeRule(V1ALPHA1, place)?.how === "replace";
  if (isAppended) return isReplacing || op !== "add" ? undefined : [nested(place, [value])];
  return op === "add" || typeof value !== "object" || isReplacing
    ? [nested(place, value)]
    : [nested(place, DELETE), nested(place, value)];
}

const nested = (keys: readonly string[], value: unknown): Tree =>
  keys.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value) as Tree;

/** undefined: they speak of the same place, so that one has to come after the other. */
function joined(first: Tree, second: Tree): Tree | undefined {
  if (Object.hasOwn(first, "$patch") || Object.hasOwn(second, "$patch")) return undefined;
  const both = new Map(Object.entries(first));
  for (const [key, value] of Object.entries(second)) {
    const known = both.get(key);
    const whole = !both.has(key)
      ? value
      : Array.isArray(known) && Array.isArray(value)
        ? [...(known as unknown[]), ...(value as unknown[])]
        : isTree(known) && isTree(value)
          ? joined(known, value)
          : undefined;
    if (whole === undefined) return undefined;
    both.set(key, whole);
  }
  return Object.fromEntries(both);
}
