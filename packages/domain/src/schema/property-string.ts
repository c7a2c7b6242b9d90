// Printing property strings in PVE's order, and reading them where a failure is an error.
import { AppError } from "@gpve/contracts/errors.ts";
import { parsePropertyString, propertyFormatOf, type PropertyRecord, type PropertyValue } from "./check.ts";
import { defaultKeyOf, type PropertyFormat } from "./properties.ts";
import { formatSize } from "./size.ts";

/** Reads a property string or throws request.invalid with PVE's text. */
export function readPropertyString(format: string | PropertyFormat, text: string, key = ""): PropertyRecord {
  const parsed = parsePropertyString(format, text, key);
  if (parsed.ok) return parsed.value;
  const details = Object.entries(parsed.errors).map(([name, error]) => `${name}: ${error}\n`);
  throw new AppError("request.invalid", `${parsed.error}${details.join("")}`, { errors: parsed.errors });
}

/** As PVE answers what it has read of a property string: booleans as 1 and 0, everything else as it was written. */
export function shownProperties(value: PropertyRecord): Record<string, string | number> {
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      typeof item === "boolean" ? Number(item) : String(item),
    ]),
  );
}

/**
 * `default value first, bare; then required keys, then the rest, each sorted`. A model and its MAC address print as
 * one pair (`virtio=AA:…`). Keys with undefined are left out.
 */
export function printPropertyString(
  format: string | PropertyFormat,
  value: Readonly<Record<string, PropertyValue | undefined>>,
  skip: readonly string[] = [],
): string {
  const schema = propertyFormatOf(format);
  if (schema === undefined)
    throw new AppError(
      "internal.error",
      `not a property format: ${typeof format === "string" ? format : "?"}`,
    );
  const done = new Set(skip);
  const parts: string[] = [];
  const together = combinedKeys(schema);
  const add = (key: string, bare: boolean) => {
    const item = value[key];
    if (done.has(key) || item === undefined) return;
    done.add(key);
    const text = printValue(schema, key, item);
    const partner = together.get(key);
    const partnerValue = partner === undefined ? undefined : value[partner];
    if (partner !== undefined && partnerValue !== undefined) {
      parts.push(`${text}=${printValue(schema, partner, partnerValue)}`);
      done.add(partner);
      return;
    }
    parts.push(bare ? text : `${key}=${text}`);
  };
  const defaultKey = defaultKeyOf(schema);
  if (defaultKey !== undefined) add(defaultKey, true);
  const keys = Object.keys(value).sort();
  for (const key of keys) if (schema[key]?.optional !== true) add(key, false);
  for (const key of keys) add(key, false);
  return parts.join(",");
}

function printValue(schema: PropertyFormat, key: string, value: PropertyValue): string {
  const rule = schema[schema[key]?.alias ?? key];
  if (rule === undefined) throw new AppError("request.invalid", `invalid key '${key}'\n`);
  if (typeof value === "boolean") return value ? "1" : "0";
  if (rule.format === "disk-size" && typeof value === "number") return formatSize(value);
  const text = String(value);
  if (text.includes(",")) throw new AppError("request.invalid", `illegal value with commas for ${key}\n`);
  return text;
}

const combined = new WeakMap<PropertyFormat, ReadonlyMap<string, string>>();

/** keyAlias -> the key it is written together with (`model` -> `macaddr`). */
function combinedKeys(schema: PropertyFormat): ReadonlyMap<string, string> {
  const found = combined.get(schema);
  if (found !== undefined) return found;
  const pairs = new Map<string, string>();
  combined.set(schema, pairs);
  for (const rule of Object.values(schema)) {
    if (rule.keyAlias !== undefined && rule.alias !== undefined) pairs.set(rule.keyAlias, rule.alias);
  }
  return pairs;
}
