import type { PveSchema } from "@gpve/contracts/pve/schema.ts";

/**
 * What PVE puts on the wire for a handler's answer: booleans as 1 and 0, undefined dropped, nothing at all as null.
 * Values that need no change are returned as they are, so large lists are not copied.
 */
export function toWire(returns: PveSchema | undefined, value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (returns?.type === "null" && typeof value !== "string" && typeof value !== "object") return null;
  return convert(value);
}

function convert(value: unknown): unknown {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "bigint") return Number(value);
  if (typeof value !== "object" || value === null) return value;
  return Array.isArray(value) ? convertArray(value) : convertObject(value);
}

function convertArray(list: readonly unknown[]): readonly unknown[] {
  let copy: unknown[] | undefined;
  for (let at = 0; at < list.length; at++) {
    const before = list[at];
    const after = before === undefined ? null : convert(before);
    if (after === before) continue;
    copy ??= list.slice();
    copy[at] = after;
  }
  return copy ?? list;
}

function convertObject(record: object): object {
  let copy: Record<string, unknown> | undefined;
  for (const [key, before] of Object.entries(record)) {
    const after = convert(before);
    if (after === before && after !== undefined) continue;
    copy ??= { ...record };
    if (after === undefined) delete copy[key];
    else copy[key] = after;
  }
  return copy ?? record;
}
