// Every key of a VM's configuration file with its schema: what the API sets plus what only the file holds.
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import { checkFormat } from "../../schema/check.ts";
import { parseBoolean } from "../../schema/list.ts";
import { methodByKey } from "../../schema/method-table.ts";
import { schemaOfKey, type PropertyFormat } from "../../schema/properties.ts";

const CONFIG_PATH = "/nodes/{node}/qemu/{vmid}/config";
// Parameters of the call that are no configuration.
const CALL_ONLY = new Set([
  "node",
  "vmid",
  "digest",
  "delete",
  "revert",
  "skiplock",
  "force",
  "background_delay",
  "import-working-storage",
]);

// Written by PVE releases newer than the API described here; their files are read all the same.
const NEWER_PROPERTIES: Readonly<Record<string, PropertyFormat>> = {
  "net[n]": { "host-tunnel": { type: "boolean", optional: true } },
};

/** Key -> schema; indexed keys as `net[n]`. */
export const vmKeySchemas: PropertyFormat = collect();

/** Kinds of drives in the order PVE walks them; the first disk found is the default boot disk. */
export const DRIVE_KINDS = [
  ["ide", 4],
  ["scsi", 31],
  ["virtio", 16],
  ["sata", 6],
  ["efidisk", 1],
  ["tpmstate", 1],
] as const;

/** All drive keys in PVE's order: ide0 … tpmstate0. */
export const driveKeys: readonly string[] = DRIVE_KINDS.flatMap(([bus, count]) =>
  Array.from({ length: count }, (_, index) => `${bus}${index}`),
);
const driveKeySet = new Set(driveKeys);

export const MAX_UNUSED = 256;

export function isDriveKey(key: string): boolean {
  return driveKeySet.has(key);
}

export function vmKeySchema(key: string): PveSchema | undefined {
  return schemaOfKey(vmKeySchemas, key);
}

/** `net3` -> `net`, `cores` -> `cores`, `efidisk0` -> `efidisk0`: the row of a table about keys. */
export function keyKind(key: string): string {
  const match = /^(.*?)\d+$/.exec(key);
  return match?.[1] !== undefined && Object.hasOwn(vmKeySchemas, `${match[1]}[n]`) ? match[1] : key;
}

export type CheckedValue =
  | { readonly ok: true; readonly value: string }
  | { readonly ok: false; readonly error: string };

/** Checks a value as the configuration file's reader does (types and formats, no ranges) and normalises it. */
export function checkVmValue(
  key: string,
  value: string,
  schemas: PropertyFormat = vmKeySchemas,
): CheckedValue {
  const schema = schemaOfKey(schemas, key);
  if (schema === undefined) return { ok: false, error: `unknown setting '${key}'\n` };
  if (/[\n\r]/.test(value)) return { ok: false, error: "property contains a line feed\n" };
  const type = schema.type ?? "string";
  const wrongType = { ok: false, error: `type check ('${type}') failed - got '${value}'\n` } as const;
  if (type === "boolean") {
    const flag = parseBoolean(value);
    return flag === undefined ? wrongType : { ok: true, value: flag ? "1" : "0" };
  }
  if (type === "integer") {
    return /^\d+$/.test(value) ? { ok: true, value: value.replace(/^0+(?=\d)/, "") } : wrongType;
  }
  if (type === "number") return /^\d+(?:\.\d+)?$/.test(value) ? { ok: true, value } : wrongType;
  if (schema.format !== undefined) {
    const problem = checkFormat(schema.format, value);
    return problem === undefined
      ? { ok: true, value }
      : { ok: false, error: problem.replace(/^invalid format - /, "") };
  }
  return { ok: true, value: value.replace(/^"(.*)"$/, "$1") };
}

function collect(): PropertyFormat {
  const set = methodByKey(`PUT ${CONFIG_PATH}`)?.parameters ?? {};
  const shown = methodByKey(`GET ${CONFIG_PATH}`)?.returns.properties ?? {};
  const schemas: Record<string, PveSchema> = {};
  for (const [key, schema] of Object.entries(shown)) {
    if (!CALL_ONLY.has(key)) schemas[key] = schema;
  }
  // The set side knows the index ranges.
  for (const [key, schema] of Object.entries(set)) {
    if (!CALL_ONLY.has(key)) schemas[key] = schema;
  }
  for (const [key, more] of Object.entries(NEWER_PROPERTIES)) {
    const schema = schemas[key];
    if (typeof schema?.format === "object")
      schemas[key] = { ...schema, format: { ...schema.format, ...more } };
  }
  return schemas;
}
