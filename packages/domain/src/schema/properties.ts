// Looking keys up in a schema's properties, `net3` under `net[n]` included.
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";

export type PropertyFormat = Readonly<Record<string, PveSchema>>;

export function defaultKeyOf(schema: PropertyFormat): string | undefined {
  return compile(schema).defaultKey;
}

export function own<V>(record: Readonly<Record<string, V>>, key: string): V | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

interface CompiledProperties {
  readonly fixed: ReadonlyMap<string, PveSchema>;
  /** Keys written `net[n]`, by their stem. */
  readonly indexed: ReadonlyMap<string, { schema: PveSchema; low: number; high: number }>;
  /** The key of a value without one, in a property string. */
  readonly defaultKey: string | undefined;
}

const compiledProperties = new WeakMap<PropertyFormat, CompiledProperties>();

function compile(properties: PropertyFormat): CompiledProperties {
  const known = compiledProperties.get(properties);
  if (known !== undefined) return known;
  const fixed = new Map<string, PveSchema>();
  const indexed = new Map<string, { schema: PveSchema; low: number; high: number }>();
  for (const [key, schema] of Object.entries(properties)) {
    const stem = /^(.*)\[n\]$/.exec(key)?.[1];
    // Answers have no range of their own.
    const [low, high] = schema.indexRange ?? [0, Number.MAX_SAFE_INTEGER];
    if (stem === undefined) fixed.set(key, schema);
    else indexed.set(stem, { schema, low, high });
  }
  const [defaultKey] =
    Object.entries(properties).find(([, rule]) => rule.default_key === true || rule.default_key === 1) ?? [];
  const result = { fixed, indexed, defaultKey };
  compiledProperties.set(properties, result);
  return result;
}

/** The keys that are not indexed, with their schema. */
export function fixedKeys(properties: PropertyFormat): ReadonlyMap<string, PveSchema> {
  return compile(properties).fixed;
}

/** The schema of a key, `net3` found under `net[n]`. */
export function schemaOfKey(properties: PropertyFormat, key: string): PveSchema | undefined {
  const { fixed, indexed } = compile(properties);
  const exact = fixed.get(key);
  if (exact !== undefined) return exact;
  const match = /^(.*?)(0|[1-9]\d{0,8})$/.exec(key);
  const range = match === null ? undefined : indexed.get(match[1] ?? "");
  if (range === undefined) return undefined;
  const index = Number(match?.[2]);
  return index >= range.low && index <= range.high ? range.schema : undefined;
}
