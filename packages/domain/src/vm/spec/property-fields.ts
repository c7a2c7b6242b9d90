// A property string as typed fields and back, by the tables of the contract.
import type { PropertyField } from "@gpve/contracts/v1/vm-spec/fields.ts";
import { parsePropertyString, type PropertyRecord, type PropertyValue } from "../../schema/check.ts";
import { printPropertyString } from "../../schema/property-string.ts";
import { vmKeySchema } from "../config/keys.ts";
import type { TypedFields } from "./key-mapping.ts";

/** undefined where the text has an option that no field stands for, or is not valid. */
export function readProperties(key: string, text: string): PropertyRecord | undefined {
  const format = vmKeySchema(key)?.format;
  if (format === undefined) return undefined;
  const parsed = parsePropertyString(format, text, key);
  return parsed.ok ? parsed.value : undefined;
}

export function toFields(
  table: readonly PropertyField[],
  properties: PropertyRecord,
): TypedFields | undefined {
  const byPve = fieldsByPve(table);
  const fields: Record<string, unknown> = {};
  for (const [pve, value] of Object.entries(properties)) {
    const field = byPve.get(pve);
    if (field === undefined) return undefined;
    fields[field] = value;
  }
  return fields;
}

/** Of every table once: lists of thousands of VMs are read through them. */
const known = new WeakMap<readonly PropertyField[], ReadonlyMap<string, string>>();

function fieldsByPve(table: readonly PropertyField[]): ReadonlyMap<string, string> {
  let byPve = known.get(table);
  if (byPve === undefined) {
    byPve = new Map(table.map((row) => [row.pve, row.field]));
    known.set(table, byPve);
  }
  return byPve;
}

export function toProperties(table: readonly PropertyField[], fields: TypedFields): PropertyRecord {
  const properties: PropertyRecord = {};
  for (const { field, pve } of table) {
    const value = fields[field];
    // Checked by the kind's schema.
    if (value !== undefined) properties[pve] = value as PropertyValue;
  }
  return properties;
}

export function printProperties(key: string, properties: PropertyRecord): string {
  return printPropertyString(vmKeySchema(key)?.format ?? "", properties);
}
