// Strategic merge of one document into another, by Talos' rules: single values override unless they are empty ("" or
// 0; false counts), maps merge, lists append.
import { AppError } from "@gpve/contracts/errors.ts";
import { isDeepStrictEqual } from "node:util";
import { mergeRule } from "./merge-rules.ts";
import { nameOfKind, plain, type Traced, type TracedList, type TracedMap } from "./traced-tree.ts";

export function mergeDocuments(kind: string, left: TracedMap, right: TracedMap): void {
  for (const [key, value] of right.entries) mergeEntry(kind, left, key, value, [key]);
}

function mergeEntry(
  kind: string,
  left: TracedMap,
  key: string,
  value: Traced,
  path: readonly string[],
): void {
  const merged = merge(kind, left.entries.get(key), value, path);
  if (merged !== undefined) left.entries.set(key, merged);
}

function merge(
  kind: string,
  left: Traced | undefined,
  right: Traced,
  path: readonly string[],
): Traced | undefined {
  if (isNull(right)) return left;
  if (left === undefined || isNull(left)) return right;
  if (left.kind !== right.kind) {
    throw new AppError(
      "config.invalid",
      `${path.join(".")} is ${nameOfKind(left)} (from ${left.source}) and cannot be merged with ${nameOfKind(right)} (from ${right.source})`,
    );
  }
  if (right.kind === "scalar") return right.value === "" || right.value === 0 ? left : right;
  const rule = mergeRule(kind, path);
  if (rule?.how === "replace") return right;
  if (left.kind === "list" && right.kind === "list") {
    if (rule === undefined) left.items.push(...right.items);
    else if (rule.how === "union") appendOthers(left, right);
    else mergeMatching(kind, left, right, rule.keys, path);
  }
  if (left.kind === "map" && right.kind === "map") {
    for (const [key, value] of right.entries) mergeEntry(kind, left, key, value, [...path, key]);
  }
  return left;
}

function appendOthers(left: TracedList, right: TracedList): void {
  for (const item of right.items) {
    if (!left.items.some((known) => isDeepStrictEqual(plain(known), plain(item)))) left.items.push(item);
  }
}

function mergeMatching(
  kind: string,
  left: TracedList,
  right: TracedList,
  keys: readonly string[],
  path: readonly string[],
): void {
  for (const item of right.items) {
    const existing = left.items.find((candidate) => isSameItem(candidate, item, keys));
    if (existing === undefined) left.items.push(item);
    else merge(kind, existing, item, [...path, "[]"]);
  }
}

function isSameItem(a: Traced, b: Traced, keys: readonly string[]): boolean {
  if (a.kind !== "map" || b.kind !== "map") return false;
  const key = keys.find((candidate) => b.entries.has(candidate));
  if (key === undefined) return false;
  const [own, other] = [a.entries.get(key), b.entries.get(key)];
  return own !== undefined && other !== undefined && isDeepStrictEqual(plain(own), plain(other));
}

function isNull(node: Traced): boolean {
  return node.kind === "scalar" && node.value === null;
}
