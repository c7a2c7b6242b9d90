// RFC 6902 patches. Talos takes them for configurations of one document only.
import { AppError } from "@gpve/contracts/errors.ts";
import { isDeepStrictEqual } from "node:util";
import type { Value } from "../config/document.ts";
import { childOf, plain, trace, type Traced, type TracedMap } from "./traced-tree.ts";

type Operation = { readonly [key: string]: Value };

export function applyJsonPatch(document: TracedMap, operations: readonly Value[], source: string): void {
  for (const [index, operation] of operations.entries()) {
    const fail = (why: string): AppError =>
      new AppError("config.invalid", `operation ${index + 1} of the JSON patch ${source} failed: ${why}`);
    if (typeof operation !== "object" || operation === null || Array.isArray(operation)) {
      throw fail("it is no map");
    }
    apply(document, operation as Operation, source, fail);
  }
}

function apply(root: TracedMap, operation: Operation, source: string, fail: (why: string) => AppError): void {
  const path = pointer(operation["path"], fail);
  const value = (): Traced => {
    if (!Object.hasOwn(operation, "value")) throw fail("it has no value");
    return trace(operation["value"] ?? null, source);
  };
  const { op } = operation;
  switch (typeof op === "string" ? op : "") {
    case "add":
      return put(root, path, value(), fail);
    case "replace":
      take(root, path, fail);
      return put(root, path, value(), fail);
    case "remove":
      take(root, path, fail);
      return;
    case "test":
      if (!isDeepStrictEqual(plain(find(root, path, fail)), plain(value()))) {
        throw fail(`/${path.join("/")} has another value`);
      }
      return;
    case "move":
      return put(root, path, take(root, pointer(operation["from"], fail), fail), fail);
    case "copy":
      return put(root, path, trace(plain(find(root, pointer(operation["from"], fail), fail)), source), fail);
    default:
      throw fail("op is none of add, replace, remove, test, move, copy");
  }
}

function pointer(text: Value | undefined, fail: (why: string) => AppError): readonly string[] {
  if (typeof text !== "string" || !text.startsWith("/")) throw fail("its path does not begin with /");
  return text
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function find(root: Traced, path: readonly string[], fail: (why: string) => AppError): Traced {
  let node: Traced | undefined = root;
  for (const key of path) node = node === undefined ? undefined : childOf(node, key);
  if (node === undefined) throw fail(`there is no /${path.join("/")}`);
  return node;
}

function take(root: Traced, path: readonly string[], fail: (why: string) => AppError): Traced {
  const taken = find(root, path, fail);
  const parent = find(root, path.slice(0, -1), fail);
  const key = path.at(-1) ?? "";
  if (parent.kind === "map") parent.entries.delete(key);
  if (parent.kind === "list") parent.items.splice(Number(key), 1);
  return taken;
}

function put(root: Traced, path: readonly string[], value: Traced, fail: (why: string) => AppError): void {
  const parent = find(root, path.slice(0, -1), fail);
  const key = path.at(-1) ?? "";
  if (parent.kind === "map") {
    parent.entries.set(key, value);
    return;
  }
  const index = parent.kind === "list" && key === "-" ? parent.items.length : Number(key);
  if (parent.kind !== "list" || !/^(\d+|-)$/.test(key) || index > parent.items.length) {
    throw fail(`nothing can be put at /${path.join("/")}`);
  }
  parent.items.splice(index, 0, value);
}
