// PVE's parameters on the wire: path templates, forms and queries.
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import type { PveRouteKey } from "@gpve/contracts/pve/route-key.ts";

export type PvePath<Verb extends string> = PveRouteKey extends infer Key
  ? Key extends `${Verb} ${infer Path}`
    ? Path
    : never
  : never;
export type PveParamsOf<Verb extends string, Path extends string> = `${Verb} ${Path}` extends PveRouteKey
  ? PveParams[`${Verb} ${Path}`]
  : never;

export type PveValue = string | number | boolean | readonly (string | number | boolean)[] | undefined | null;
export type PveValues = Readonly<Record<string, PveValue>>;

/** Fills `{node}` and the like; returns what is left for form or query. */
export function fillPath(template: string, params: PveValues): { path: string; rest: PveValues } {
  const used = new Set<string>();
  const path = template.replace(/\{([^}]+)\}/g, (_whole, name: string) => {
    const value = params[name];
    if (value === undefined || value === null || value === "" || Array.isArray(value)) {
      throw invalidField(
        name,
        "property is missing and it is not optional",
        `${template} needs a value for ${name}`,
      );
    }
    used.add(name);
    return encodeURIComponent(pveText(value as string | number | boolean));
  });
  return { path, rest: Object.fromEntries(Object.entries(params).filter(([name]) => !used.has(name))) };
}

/** Booleans as 0/1, arrays as repeated keys, absent values left out. */
export function encodeParams(params: PveValues): string {
  const pairs: string[] = [];
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === null) continue;
    const values = Array.isArray(value) ? (value as readonly (string | number | boolean)[]) : [value];
    for (const one of values) {
      pairs.push(
        `${encodeURIComponent(name)}=${encodeURIComponent(pveText(one as string | number | boolean))}`,
      );
    }
  }
  return pairs.join("&");
}

/** As PVE takes a value: booleans are 1 and 0. */
export function pveText(value: string | number | boolean): string {
  return typeof value === "boolean" ? (value ? "1" : "0") : String(value);
}
