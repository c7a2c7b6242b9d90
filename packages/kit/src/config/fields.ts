// Small building blocks for configuration files: each takes a YAML node and gives a typed value, or tells what is
// wrong with file, line and key. All problems of a file are told at once.
import { isMap, isScalar, isSeq, type LineCounter, type Node, type Scalar } from "yaml";

export interface Reading {
  readonly file: string;
  readonly lines: LineCounter;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly problems: string[];
}

export interface Place {
  readonly reading: Reading;
  /** "server.port" */
  readonly key: string;
  /** Where to point when the node itself is absent. */
  readonly near: Node | null | undefined;
}

/** Reads a node; `undefined` node = the key is absent. Problems go to the reading; the value is then a stand-in. */
export interface Field<T> {
  (node: Node | null | undefined, place: Place): T;
  /** Keys below this one, "server.port" or "plugins[].name"; absent = it is a value itself. */
  readonly keys?: readonly string[];
}

export function problem(place: Place, node: Node | null | undefined, text: string): void {
  const offset = (node ?? place.near)?.range?.[0];
  const line = offset === undefined ? 1 : place.reading.lines.linePos(offset).line;
  place.reading.problems.push(`${place.reading.file}:${line}: ${place.key}: ${text}`);
}

export function optional<T>(field: Field<T>): Field<T | undefined> {
  return withKeys((node, place) => (isAbsent(node) ? undefined : field(node, place)), field.keys);
}

export function withDefault<T>(field: Field<T>, value: T): Field<T> {
  return withKeys((node, place) => (isAbsent(node) ? value : field(node, place)), field.keys);
}

export function text(
  check: { oneOf?: readonly string[]; pattern?: RegExp; says?: string } = {},
): Field<string> {
  return (node, place) => {
    const value = scalarOf(node, place, "a text");
    if (value === undefined) return "";
    if (typeof value.value !== "string") {
      problem(place, node, `must be a text, put it in quotes`);
      return "";
    }
    const near = (check.oneOf?.length ?? 0) > 1 ? hint(value.value, check.oneOf ?? []) : "";
    if (check.oneOf !== undefined && !check.oneOf.includes(value.value)) {
      problem(place, node, `must be one of ${check.oneOf.join(", ")}${near}`);
    } else if (check.pattern !== undefined && !check.pattern.test(value.value)) {
      problem(place, node, check.says ?? `does not match ${check.pattern.source}`);
    }
    return value.value;
  };
}

export function choice<const T extends string>(...values: readonly T[]): Field<T> {
  const field = text({ oneOf: values });
  return (node, place) => field(node, place) as T;
}

export function number(range: { min?: number; max?: number; integer?: boolean } = {}): Field<number> {
  return (node, place) => {
    const value = scalarOf(node, place, "a number");
    if (value === undefined) return 0;
    const plain =
      typeof value.value === "string" && value.interpolated && value.value.trim() !== ""
        ? Number(value.value)
        : value.value;
    if (
      typeof plain !== "number" ||
      !Number.isFinite(plain) ||
      (range.integer === true && !Number.isInteger(plain))
    ) {
      problem(place, node, range.integer === true ? "must be a whole number" : "must be a number");
      return 0;
    }
    const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = range;
    if (plain < min || plain > max) problem(place, node, `must be between ${min} and ${max}`);
    return plain;
  };
}

export const port = number({ min: 1, max: 65_535, integer: true });

export const flag: Field<boolean> = (node, place) => {
  const value = scalarOf(node, place, "true or false");
  if (value === undefined) return false;
  if (value.interpolated && (value.value === "true" || value.value === "false"))
    return value.value === "true";
  if (typeof value.value === "boolean") return value.value;
  problem(place, node, "must be true or false");
  return false;
};

export function list<T>(item: Field<T>): Field<readonly T[]> {
  const keys = item.keys?.map((key) => `[].${key}`);
  return withKeys((node: Node | null | undefined, place: Place): readonly T[] => {
    if (!isSeq(node)) {
      problem(place, node, "must be a list");
      return [];
    }
    return node.items.map((entry, index) =>
      item(entry as Node, { ...place, key: `${place.key}[${index}]`, near: node }),
    );
  }, keys);
}

function withKeys<T>(field: Field<T>, keys: readonly string[] | undefined): Field<T> {
  return keys === undefined ? field : Object.assign(field, { keys });
}

/** Free-form settings of a plugin, which checks them itself. References to the environment are filled in. */
export const anything: Field<unknown> = (node, place) => {
  if (isMap(node)) {
    return Object.fromEntries(
      node.items.map((pair) => {
        const name = String((pair.key as Scalar).value);
        return [name, anything(pair.value as Node, { ...place, key: `${place.key}.${name}`, near: node })];
      }),
    );
  }
  if (isSeq(node)) return list(anything)(node, place);
  return isAbsent(node) ? null : scalarOf(node, place, "a value")?.value;
};

type Fields = Readonly<Record<string, Field<unknown>>>;
type Values<F extends Fields> = { readonly [K in keyof F]: ReturnType<F[K]> };

/** A map with exactly these keys; others are typos. An absent map is an empty one. */
export function record<F extends Fields>(fields: F): Field<Values<F>> {
  const keys = Object.entries(fields).flatMap(([name, field]) =>
    field.keys === undefined
      ? [name]
      : field.keys.map((key) => `${name}${key.startsWith("[") ? "" : "."}${key}`),
  );
  return withKeys((node: Node | null | undefined, place: Place): Values<F> => {
    if (!isAbsent(node) && !isMap(node)) {
      problem(place, node, "must be a map of keys");
    }
    const pairs = isMap(node) ? node.items : [];
    const found = new Map<string, Node | null>();
    for (const pair of pairs) {
      const key = pair.key as Scalar;
      const name = String(key.value);
      if (!Object.hasOwn(fields, name)) {
        problem(
          { ...place, key: join(place.key, name) },
          key,
          `unknown key${hint(name, Object.keys(fields))}`,
        );
      } else {
        found.set(name, pair.value as Node | null);
      }
    }
    const near = isAbsent(node) ? place.near : node;
    return Object.fromEntries(
      Object.entries(fields).map(([name, field]) => [
        name,
        field(found.get(name), { ...place, key: join(place.key, name), near }),
      ]),
    ) as Values<F>;
  }, keys);
}

function isAbsent(node: Node | null | undefined): boolean {
  return node === undefined || node === null || (isScalar(node) && node.value === null);
}

function scalarOf(
  node: Node | null | undefined,
  place: Place,
  what: string,
): { value: unknown; interpolated: boolean } | undefined {
  if (isAbsent(node)) {
    problem(place, node, `is required and must be ${what}`);
    return undefined;
  }
  if (!isScalar(node)) {
    problem(place, node, `must be ${what}`);
    return undefined;
  }
  if (typeof node.value !== "string") return { value: node.value, interpolated: false };
  let interpolated = false;
  const value = node.value.replace(
    /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g,
    (_whole, name: string, fallback: string | undefined) => {
      interpolated = true;
      const found = place.reading.env[name] ?? fallback;
      if (found === undefined) problem(place, node, `environment variable ${name} is not set`);
      return found ?? "";
    },
  );
  return { value, interpolated };
}

function join(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

/** `, did you mean "port"?` when something close exists. */
export function hint(given: string, known: readonly string[]): string {
  const near = known
    .map((name) => ({ name, distance: distance(given.toLowerCase(), name.toLowerCase()) }))
    .toSorted((a, b) => a.distance - b.distance)[0];
  if (near === undefined || near.distance > Math.max(1, Math.floor(given.length / 3))) return "";
  return `, did you mean ${JSON.stringify(near.name)}?`;
}

/** Edits between two words, with a swap of neighbours counting once. */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const at = (r: number, c: number): number =>
        (r === i ? row[c] : rows[r]?.[c]) ?? Number.POSITIVE_INFINITY;
      let best = Math.min(
        at(i - 1, j) + 1,
        at(i, j - 1) + 1,
        at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1),
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, at(i - 2, j - 2) + 1);
      row.push(best);
    }
    rows.push(row);
  }
  return rows[a.length]?.[b.length] ?? 0;
}
