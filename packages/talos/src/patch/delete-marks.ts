// `$patch: delete` in a patch: which parts of the configuration it takes away.
import { AppError } from "@gpve/contracts/errors.ts";
import { freeMaps } from "../config/free-maps.ts";
import { knownKeys } from "../config/refusals.ts";
import { V1ALPHA1 } from "./merge-rules.ts";
import { childOf, textOf, type Traced, type TracedList, type TracedMap } from "./traced-tree.ts";

const MARK = "$patch";

export interface Deletion {
  /** Keys from the document's root; empty: the document itself. */
  readonly path: readonly string[];
  /** Of a list: the item whose `key` has this value. */
  readonly item?: { readonly key: string; readonly value: string };
}

export interface MarkedDocument {
  readonly deletions: readonly Deletion[];
  /** What is left to merge; undefined when the marks were all there was. */
  readonly rest: TracedMap | undefined;
}

/** Takes the marks out of a patch's document. */
export function takeMarks(document: TracedMap): MarkedDocument {
  const deletions: Deletion[] = [];
  const isGone = strip(document, [], deletions);
  return { deletions, rest: isGone ? undefined : document };
}

/** True when the node was a mark, or nothing but marks. */
function strip(node: Traced, path: readonly string[], deletions: Deletion[]): boolean {
  if (node.kind === "scalar") return false;
  if (node.kind === "list") return stripList(node, path, deletions);
  if (textOf(node.entries.get(MARK)) === "delete") {
    deletions.push({ path });
    return true;
  }
  const before = node.entries.size;
  for (const [key, child] of node.entries) {
    if (strip(child, [...path, key], deletions)) node.entries.delete(key);
  }
  return before > 0 && node.entries.size === 0;
}

function stripList(list: TracedList, path: readonly string[], deletions: Deletion[]): boolean {
  const kept = list.items.filter((item) => {
    if (item.kind === "map" && textOf(item.entries.get(MARK)) === "delete") {
      deletions.push({ path, item: selectorOf(item, path) });
      return false;
    }
    refuseInnerMarks(item, path);
    return true;
  });
  const isGone = list.items.length > 0 && kept.length === 0;
  list.items.splice(0, list.items.length, ...kept);
  return isGone;
}

/** The first other key of the item says which one is meant. */
function selectorOf(item: TracedMap, path: readonly string[]): { key: string; value: string } {
  for (const [key, node] of item.entries) {
    if (key === MARK) continue;
    const value = textOf(node);
    if (value !== undefined) return { key, value };
    break;
  }
  throw new AppError(
    "config.invalid",
    `$patch: delete in the list ${path.join(".")} (${item.source}) needs a key and a value that say which item is meant`,
  );
}

function refuseInnerMarks(node: Traced, path: readonly string[]): void {
  if (node.kind === "scalar") return;
  if (node.kind === "map" && textOf(node.entries.get(MARK)) === "delete") {
    throw new AppError(
      "config.invalid",
      `$patch: delete below the list ${path.join(".")} (${node.source}) is not possible: delete the item and add it anew`,
    );
  }
  const children = node.kind === "map" ? node.entries.values() : node.items;
  for (const child of children) refuseInnerMarks(child, path);
}

/** False when there is nothing at that place. */
export function deleteFrom(document: TracedMap, { path, item }: Deletion): boolean {
  const containerPath = item === undefined ? path.slice(0, -1) : path;
  const container = nodeAt(document, containerPath);
  if (item === undefined) {
    if (container?.kind !== "map" || !container.entries.delete(path.at(-1) ?? "")) return false;
    // Talos leaves them out once they are empty; a section of fixed fields stays, as `{}`.
    if (freeMaps.has(containerPath.at(-1) ?? "")) dropIfEmpty(document, containerPath);
    return true;
  }
  if (container?.kind !== "list") return false;
  const index = container.items.findIndex((candidate) => textOf(childOf(candidate, item.key)) === item.value);
  if (index < 0) return false;
  container.items.splice(index, 1);
  dropIfEmpty(document, containerPath);
  return true;
}

/** A field that could be set and is not: there is nothing to take away, and nothing wrong. */
export function isUnsetField(kind: string, document: TracedMap, { path, item }: Deletion): boolean {
  const [place, key = ""] = [path.slice(0, -1), path.at(-1)];
  if (item !== undefined || nodeAt(document, place)?.kind !== "map") return false;
  return kind === V1ALPHA1 ? knownKeys(place).includes(key) : path.length === 1;
}

function dropIfEmpty(document: TracedMap, path: readonly string[]): void {
  const node = nodeAt(document, path);
  const size = node?.kind === "list" ? node.items.length : node?.kind === "map" ? node.entries.size : 1;
  const parent = nodeAt(document, path.slice(0, -1));
  if (size === 0 && parent?.kind === "map") parent.entries.delete(path.at(-1) ?? "");
}

function nodeAt(document: TracedMap, path: readonly string[]): Traced | undefined {
  let node: Traced | undefined = document;
  for (const key of path) node = node === undefined ? undefined : childOf(node, key);
  return node;
}
