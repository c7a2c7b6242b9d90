// JSON merge patch (RFC 7396), and the differences between two JSON values as a person reads them.
import { isObject } from "@gpve/contracts/json-object.ts";
import type { FieldChange } from "@gpve/contracts/v1/bodies.ts";

/** Returns a new value; neither argument is changed. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else merged.set(key, mergePatch(merged.get(key), value));
  }
  // fromEntries defines own properties, so a key "__proto__" stays a key.
  return Object.fromEntries(merged);
}

export function sameJson(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((value, index) => sameJson(value, b[index]));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every(
    (key) => Object.hasOwn(a, key) === Object.hasOwn(b, key) && sameJson(a[key], b[key]),
  );
}

/** Field by field, objects and lists of named entries entered, other arrays as a whole. Secret paths show that they change, not what. */
export function diffFields(
  before: unknown,
  after: unknown,
  path: string,
  isSecret: (path: string) => boolean = () => false,
): readonly FieldChange[] {
  if (sameJson(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted();
    return keys.flatMap((key) =>
      diffFields(
        Object.hasOwn(before, key) ? before[key] : undefined,
        Object.hasOwn(after, key) ? after[key] : undefined,
        path === "" ? key : `${path}.${key}`,
        isSecret,
      ),
    );
  }
  const [named, renamed] = [byName(before), byName(after)];
  if (named !== undefined && renamed !== undefined && named.size + renamed.size > 0) {
    const names = [...new Set([...named.keys(), ...renamed.keys()])];
    return names.flatMap((name) =>
      diffFields(named.get(name), renamed.get(name), `${path}[${name}]`, isSecret),
    );
  }
  const shown = (value: unknown): unknown => hidden(value, path, isSecret);
  if (before === undefined) return [{ path, op: "add", after: shown(after) }];
  if (after === undefined) return [{ path, op: "remove", before: shown(before) }];
  return [{ path, op: "replace", before: shown(before), after: shown(after) }];
}

/** What comes or goes as a whole may hold secrets too. */
function hidden(value: unknown, path: string, isSecret: (path: string) => boolean): unknown {
  if (value === undefined) return value;
  if (isSecret(path)) return "(secret)";
  if (Array.isArray(value)) return value.map((part: unknown) => hidden(part, path, isSecret));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, hidden(part, `${path}.${key}`, isSecret)]),
  );
}

/** The entries of a list that all have a name of their own; undefined: it is none. */
function byName(value: unknown): ReadonlyMap<string, unknown> | undefined {
  if (value === undefined) return new Map();
  if (!Array.isArray(value)) return undefined;
  const entries = value.map((item: unknown) => [isObject(item) ? item["name"] : undefined, item] as const);
  const map = new Map(entries);
  return map.size === value.length && entries.every(([name]) => typeof name === "string")
    ? (map as ReadonlyMap<string, unknown>)
    : undefined;
}
