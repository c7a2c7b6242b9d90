// Compares an answer, as it is on the wire, with what PVE says its method returns.
import { isObject } from "@gpve/contracts/json-object.ts";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";

/** What is wrong with it, one line each: "[0].size: a string, not an integer". Keys PVE does not name are fine. */
export function shapeProblems(schema: PveSchema, value: unknown, at = ""): readonly string[] {
  const where = at === "" ? "answer" : at;
  if (value === null) return schema.type === undefined || schema.type === "null" ? [] : [`${where}: null`];
  switch (schema.type) {
    case "array":
      if (!Array.isArray(value)) return [`${where}: not a list`];
      return value.flatMap((item, index) => shapeProblems(schema.items ?? {}, item, `${at}[${index}]`));
    case "object":
      return isObject(value) ? objectProblems(schema, value, at) : [`${where}: not an object`];
    case "boolean":
      return value === 0 || value === 1
        ? []
        : [`${where}: ${typeof value} ${JSON.stringify(value)}, not 0 or 1`];
    case "integer":
      return Number.isInteger(value)
        ? []
        : [`${where}: ${typeof value} ${JSON.stringify(value)}, not an integer`];
    case "number":
      return typeof value === "number" ? [] : [`${where}: a ${typeof value}, not a number`];
    case "string":
      return textProblems(schema, value, where);
    case "null":
      return [`${where}: not null`];
    case undefined:
    default:
      return [];
  }
}

function objectProblems(
  schema: PveSchema,
  value: Readonly<Record<string, unknown>>,
  at: string,
): readonly string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, property]) => {
    const path = at === "" ? key : `${at}.${key}`;
    if (key.includes("[n]")) return [];
    if (value[key] === undefined) return property.optional === true ? [] : [`${path}: missing`];
    return shapeProblems(property, value[key], path);
  });
}

function textProblems(schema: PveSchema, value: unknown, where: string): readonly string[] {
  if (typeof value !== "string") return [`${where}: a ${typeof value}, not a string`];
  if (Array.isArray(schema.enum) && !schema.enum.includes(value))
    return [`${where}: '${value}' is no choice`];
  if (schema.pattern !== undefined && !new RegExp(`^(?:${schema.pattern})$`).test(value)) {
    return [`${where}: '${value}' does not match ${schema.pattern}`];
  }
  return [];
}
