// PVE's schema check: types, formats, ranges, enumerations, property strings, with PVE's own texts.
// Checking and typing happen in one pass: what comes back has booleans as true/false and numbers as numbers.
import namedFormats from "@gpve/contracts/gen/named-formats.json" with { type: "json" };
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import { cpuProblem } from "./cpu-rule.ts";
import { formatRules, formatTexts } from "./format-rules.ts";
import { isIntegerText, isNumberText, parseBoolean, splitList } from "./list.ts";
import { compilePattern } from "./pattern.ts";
import { defaultKeyOf, fixedKeys, own, schemaOfKey, type PropertyFormat } from "./properties.ts";
import { SchemaErrors } from "./schema-errors.ts";
import { parseSize } from "./size.ts";

export type PropertyValue = string | number | boolean;
export type PropertyRecord = Record<string, PropertyValue>;

export type PropertyParse =
  | { readonly ok: true; readonly value: PropertyRecord }
  | { readonly ok: false; readonly error: string; readonly errors: Readonly<Record<string, string>> };

interface NamedFormat {
  readonly pattern?: string;
  readonly enum?: readonly string[];
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly properties?: PropertyFormat;
}

const named = new Map(Object.entries(namedFormats as unknown as Record<string, NamedFormat>));
named.delete("_notes");

/** Rules over a whole property string, beyond its keys. */
const propertyRules: ReadonlyMap<string, (value: PropertyRecord) => string | undefined> = new Map([
  ["pve-vm-cpu-conf", cpuProblem],
  [
    "backup-fleecing",
    (value: PropertyRecord) =>
      value["enabled"] === true && value["storage"] === undefined
        ? "'storage' is required when fleecing is enabled\n"
        : undefined,
  ],
  [
    "prune-backups",
    (value: PropertyRecord) => {
      const others = Object.entries(value).some(([key, keep]) => key !== "keep-all" && Number(keep) > 0);
      return value["keep-all"] === true && others
        ? "keep-all cannot be set together with other options.\n"
        : undefined;
    },
  ],
]);

/** The property-string schema behind a format, or undefined for a plain text format. */
export function propertyFormatOf(format: PveSchema["format"]): PropertyFormat | undefined {
  if (format === undefined) return undefined;
  return typeof format === "string" ? named.get(format)?.properties : format;
}

/** undefined when the value fits; else `invalid format - <detail>`, the detail with its newline. */
export function checkFormat(format: string | PropertyFormat, value: string, path = ""): string | undefined {
  const detail = formatDetail(format, value, path);
  return detail === undefined ? undefined : `invalid format - ${detail}`;
}

export function isKnownFormat(format: string): boolean {
  const base = format.replace(/-(?:list|opt)$/, "");
  return formatRules.has(base) || named.has(base);
}

function formatDetail(format: string | PropertyFormat, value: string, path: string): string | undefined {
  if (typeof format !== "string") return propertyDetail(format, value, path);
  const [, name = format, kind] = /^(.*?)(?:-(list|opt))?$/.exec(format) ?? [];
  if (kind === "opt" && value === "") return undefined;
  if (kind === "list") {
    for (const item of splitList(value)) {
      const detail = nameDetail(name, item, path);
      if (detail !== undefined) return detail;
    }
    return undefined;
  }
  return nameDetail(name, value, path);
}

function nameDetail(name: string, value: string, path: string): string | undefined {
  const rule = formatRules.get(name);
  if (rule !== undefined) return rule(value);
  const facts = named.get(name);
  if (facts === undefined) return `undefined format '${name}'\n`;
  if (facts.properties !== undefined) return propertyDetail(name, value, path);
  const fits =
    (facts.pattern === undefined || compilePattern(facts.pattern).test(value)) &&
    (facts.enum === undefined || facts.enum.includes(value)) &&
    (facts.minLength === undefined || value.length >= facts.minLength) &&
    (facts.maxLength === undefined || value.length <= facts.maxLength);
  return fits ? undefined : (formatTexts[name]?.(value) ?? `value does not look like a valid ${name}\n`);
}

function propertyDetail(format: string | PropertyFormat, value: string, path: string): string | undefined {
  const parsed = parsePropertyString(format, value, path);
  if (parsed.ok) return undefined;
  let text = parsed.error;
  for (const [key, error] of Object.entries(parsed.errors)) text += `${key}: ${error}\n`;
  return text;
}

/** Reads `a,key=value,…` by a property format (its schema or its name); sizes become bytes. */
export function parsePropertyString(format: string | PropertyFormat, text: string, path = ""): PropertyParse {
  const schema = typeof format === "string" ? named.get(format)?.properties : format;
  if (schema === undefined)
    return { ok: false, error: `unknown format: ${typeof format === "string" ? format : ""}\n`, errors: {} };
  const raw = splitProperties(schema, text);
  if (typeof raw === "string") return { ok: false, error: raw, errors: {} };
  const errors = new SchemaErrors();
  const value: PropertyRecord = {};
  for (const [key, item] of Object.entries(checkObject(raw, schema, false, path, errors, false))) {
    const size = schema[key]?.format === "disk-size" ? parseSize(String(item)) : undefined;
    value[key] = size ?? (item as PropertyValue);
  }
  if (errors.size > 0) return { ok: false, error: "format error\n", errors: errors.toRecord() };
  const broken = typeof format === "string" ? propertyRules.get(format)?.(value) : undefined;
  return broken === undefined ? { ok: true, value } : { ok: false, error: broken, errors: {} };
}

/** The pairs as written, aliases resolved and booleans normalised; a text says what is wrong with the list. */
function splitProperties(schema: PropertyFormat, text: string): Map<string, string> | string {
  const duplicate = (key: string) => `duplicate key in comma-separated list property: ${key}\n`;
  const pairs = new Map<string, string>();
  let bareSeen = false;
  for (const part of text.split(",")) {
    if (part.trim() === "") continue;
    const equals = part.indexOf("=");
    if (equals < 0) {
      const key = defaultKeyOf(schema);
      if (key === undefined) return "value without key, but schema does not define a default key\n";
      if (bareSeen || pairs.has(key)) return duplicate(key);
      bareSeen = true;
      pairs.set(key, part);
      continue;
    }
    if (equals === 0 || equals === part.length - 1) return "missing key in comma-separated list property\n";
    const written = part.slice(0, equals);
    if (pairs.has(written)) return duplicate(written);
    let key = written;
    let rule = own(schema, key);
    if (rule?.alias !== undefined) {
      if (rule.keyAlias !== undefined) {
        if (pairs.has(rule.keyAlias)) return `key alias '${rule.keyAlias}' is already defined\n`;
        pairs.set(rule.keyAlias, written);
      }
      key = rule.alias;
      rule = own(schema, key);
    }
    if (rule === undefined) return `invalid key in comma-separated list property: ${key}\n`;
    const value = part.slice(equals + 1);
    const flag = rule.type === "boolean" ? parseBoolean(value) : undefined;
    pairs.set(key, flag === undefined ? value : flag ? "1" : "0");
  }
  return pairs;
}

const NOT_DEFINED = "property is not defined in schema and the schema does not allow additional properties";

/** Checks the keys of an object and returns it typed; keys that failed are left out. */
export function checkObject(
  value: Iterable<readonly [string, unknown]>,
  properties: PropertyFormat,
  additional: boolean | PveSchema | undefined,
  path: string,
  errors: SchemaErrors,
  lenient: boolean,
): Record<string, unknown> {
  const given = new Map<string, unknown>(value);
  const typed = new Map<string, unknown>();
  const at = (key: string) => (path === "" ? key : `${path}.${key}`);
  for (const [key, schema] of fixedKeys(properties)) {
    const missing = given.get(key) === undefined || given.get(key) === null;
    if (missing && schema.optional !== true && schema.alias === undefined && schema.type !== "null")
      errors.add(at(key), "property is missing and it is not optional");
  }
  for (const [key, item] of given) {
    const schema = schemaOfKey(properties, key);
    const variant = schema === undefined ? undefined : variantOf(schema, given);
    if (variant === undefined) {
      if (additional === undefined || additional === true) typed.set(key, item);
      else if (additional === false) errors.add(at(key), NOT_DEFINED);
      else typed.set(key, checkValue(item, additional, at(key), errors, lenient));
      continue;
    }
    if (item === undefined || item === null) continue;
    if (variant.requires !== undefined && (given.get(variant.requires) ?? undefined) === undefined)
      errors.add(at(variant.requires), `missing property required by '${at(key)}'`);
    typed.set(key, checkValue(item, variant, at(key), errors, lenient));
  }
  return Object.fromEntries(typed);
}

/** The schema that counts for this object: by its type property, where there is one; undefined = no such key here. */
function variantOf(schema: PveSchema, given: ReadonlyMap<string, unknown>): PveSchema | undefined {
  const typeKey = schema["type-property"];
  if (typeKey === undefined) return schema;
  const instance = given.get(typeKey);
  if (typeof instance !== "string") return schema.oneOf === undefined ? schema : {};
  const belongs = (candidate: PveSchema) => candidate["instance-types"]?.includes(instance) !== false;
  if (schema.oneOf !== undefined) return schema.oneOf.find(belongs);
  return belongs(schema) ? schema : undefined;
}

/** Checks one value and returns it typed. `lenient` takes what JSON clients send for booleans and integers. */
export function checkValue(
  value: unknown,
  schema: PveSchema,
  path: string,
  errors: SchemaErrors,
  lenient: boolean,
): unknown {
  if (schema.oneOf !== undefined && schema["type-property"] === undefined)
    return checkAlternatives(value, schema.oneOf, path, errors, lenient);
  const type = schema.type;
  const fail = (tail: string): undefined => {
    errors.add(path, `type check ('${type ?? "any"}') failed${tail}`);
    return undefined;
  };
  if (type === "null") return fail(" - value is not null");
  if (type === "array") {
    if (!Array.isArray(value)) return fail("");
    const items = schema.items;
    if (items === undefined) return value;
    return value.map((item: unknown, index) => checkItem(item, items, `${path}[${index}]`, errors, lenient));
  }
  if (type === "object") {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return fail("");
    const entries = Object.entries(value);
    return checkObject(entries, schema.properties ?? {}, schema.additionalProperties, path, errors, lenient);
  }
  if (typeof value === "object" && value !== null) {
    return type === undefined ? value : fail(` - got ${Array.isArray(value) ? "ARRAY" : "HASH"}`);
  }
  if (typeof value === "boolean" && type !== "boolean") {
    return type === undefined ? value : fail(" - got JSON::PP::Boolean");
  }
  return checkScalar(value, schema, path, errors, lenient, fail);
}

function checkItem(
  item: unknown,
  schema: PveSchema,
  path: string,
  errors: SchemaErrors,
  lenient: boolean,
): unknown {
  if (item === null || item === undefined) {
    errors.add(path, "property is missing and it is not optional");
    return undefined;
  }
  return checkValue(item, schema, path, errors, lenient);
}

function checkAlternatives(
  value: unknown,
  alternatives: readonly PveSchema[],
  path: string,
  errors: SchemaErrors,
  lenient: boolean,
): unknown {
  let last: Record<string, string> = {};
  for (const [index, alternative] of alternatives.entries()) {
    const tried = new SchemaErrors();
    const typed = checkValue(value, alternative, `${path}.oneOf[${index}]`, tried, lenient);
    if (tried.size === 0) return typed;
    last = { ...last, ...tried.toRecord() };
  }
  for (const [key, text] of Object.entries(last)) errors.add(key, text);
  return undefined;
}

function checkScalar(
  value: unknown,
  schema: PveSchema,
  path: string,
  errors: SchemaErrors,
  lenient: boolean,
  fail: (tail: string) => undefined,
): unknown {
  let text = typeof value === "boolean" ? (value ? "1" : "0") : String(value);
  if (lenient && schema.type === "boolean") text = lenientBoolean(text);
  if (lenient && schema.type === "integer") text = lenientInteger(text);
  if (schema.type === "boolean" && text !== "0" && text !== "1") return fail(` - got '${text}'`);
  if (schema.type === "integer" && !isIntegerText(text)) return fail(` - got '${text}'`);
  if (schema.type === "number" && !isNumberText(text)) return fail(` - got '${text}'`);
  const problem = constraintText(text, schema, path);
  if (problem !== undefined) {
    errors.add(path, problem);
    return undefined;
  }
  if (schema.type === "boolean") return text === "1";
  return schema.type === "integer" || schema.type === "number" ? Number(text) : text;
}

function lenientBoolean(text: string): string {
  const flag = parseBoolean(text);
  return flag === undefined ? text : flag ? "1" : "0";
}

/** Go's JSON encoder and `%v` write large integers as 1e+06. */
function lenientInteger(text: string): string {
  if (isIntegerText(text) || !isNumberText(text)) return text;
  const number = Number(text);
  return Number.isSafeInteger(number) ? String(number) : text;
}

/** The first rule the text breaks, in PVE's order. */
function constraintText(text: string, schema: PveSchema, path: string): string | undefined {
  if (schema.format !== undefined) {
    const problem = checkFormat(schema.format, text, path);
    if (problem !== undefined) return problem;
  }
  if (schema.pattern !== undefined && !compilePattern(schema.pattern, schema.patternFlags).test(text))
    return "value does not match the regex pattern";
  if (
    schema.maxLength !== undefined &&
    text.length > schema.maxLength &&
    Array.from(text).length > schema.maxLength
  )
    return `value may only be ${schema.maxLength} characters long`;
  if (schema.minLength !== undefined && Array.from(text).length < schema.minLength)
    return `value must be at least ${schema.minLength} characters long`;
  const number = Number(text);
  if (schema.maximum !== undefined && isNumberText(text) && number > schema.maximum)
    return `value must have a maximum value of ${schema.maximum}`;
  if (schema.minimum !== undefined && isNumberText(text) && number < schema.minimum)
    return `value must have a minimum value of ${schema.minimum}`;
  if (schema.enum !== undefined && schema.enum !== null && !schema.enum.includes(text))
    return `value '${text}' does not have a value in the enumeration '${schema.enum.join(", ")}'`;
  return undefined;
}
