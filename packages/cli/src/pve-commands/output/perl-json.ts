// JSON as PVE's commands print it: keys in order, and "pretty" with three spaces and a space before the colon.
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";

export function compactJson(data: unknown): string {
  return data === undefined ? "null" : canonicalJson(data);
}

export function prettyJson(data: unknown, indent = ""): string {
  if (typeof data !== "object" || data === null) return compactJson(data);
  const inner = `${indent}   `;
  const [open, close] = Array.isArray(data) ? ["[", "]"] : ["{", "}"];
  const lines = Array.isArray(data)
    ? data.map((item) => `${inner}${prettyJson(item, inner)}`)
    : Object.entries(data)
        .filter(([, value]) => value !== undefined)
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .map(([key, value]) => `${inner}${JSON.stringify(key)} : ${prettyJson(value, inner)}`);
  return lines.length === 0 ? `${open}${close}` : `${open}\n${lines.join(",\n")}\n${indent}${close}`;
}
