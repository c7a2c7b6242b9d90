import { AppError } from "@gpve/contracts/errors.ts";
import { parameterError } from "../request/failures.ts";
import type { PveMethod, PveSchema } from "@gpve/contracts/pve/schema.ts";
import { checkObject } from "./check.ts";
import { methodByKey } from "./method-table.ts";
import { schemaOfKey } from "./properties.ts";
import { SchemaErrors } from "./schema-errors.ts";

export type ParamSource = "form" | "json";

export type ValidatedParams =
  | { readonly ok: true; readonly params: Record<string, unknown> }
  | { readonly ok: false; readonly errors: Record<string, string> };

/** What of a method says which parameters it takes. */
export type TakesParams = Pick<PveMethod, "parameters" | "additionalProperties">;

/**
 * Checks and types the parameters of a call, path parameters included. Never throws. Defaults are not filled in.
 * Forms follow PVE to the letter (booleans are 0 or 1); JSON bodies may also say true, "on", or 1e+06.
 */
export function validateParams(
  method: TakesParams,
  raw: Readonly<Record<string, unknown>>,
  options: { readonly source: ParamSource },
): ValidatedParams {
  const errors = new SchemaErrors();
  const entries: [string, unknown][] = [];
  for (const [key, value] of Object.entries(raw)) {
    // _dc only defeats caches; undefined is an absent key.
    if (key === "_dc" || value === undefined) continue;
    const schema = schemaOfKey(method.parameters, key);
    entries.push([key, schema === undefined ? value : reshape(schema, value)]);
  }
  const params = checkObject(
    entries,
    method.parameters,
    method.additionalProperties,
    "",
    errors,
    options.source === "json",
  );
  return errors.size > 0 ? { ok: false, errors: errors.toRecord() } : { ok: true, params };
}

/** The same, as the error a PVE client expects: 400 `Parameter verification failed.` with the errors map. */
export function requireValidParams(
  method: TakesParams,
  raw: Readonly<Record<string, unknown>>,
  options: { readonly source: ParamSource },
): Record<string, unknown> {
  const result = validateParams(method, raw, options);
  if (result.ok) return result.params;
  throw parameterError(result.errors);
}

/** The same, of a method of PVE by its key. */
export function requireValidCall(
  route: string,
  raw: Readonly<Record<string, unknown>>,
  source: ParamSource,
): Record<string, unknown> {
  const method = methodByKey(route);
  if (method === undefined) throw new AppError("internal.error", `no such route: ${route}`);
  return requireValidParams(method, raw, { source });
}

/** One value for an array parameter is a list of one; a repeated key of a list parameter is joined. */
function reshape(schema: PveSchema, value: unknown): unknown {
  if (Array.isArray(value)) {
    const isList = typeof schema.format === "string" && schema.format.endsWith("-list");
    const scalars = value.every((item) => typeof item === "string" || typeof item === "number");
    return isList && schema.type === "string" && scalars ? value.join(",") : value;
  }
  const wantsArray =
    schema.type === "array" || schema.oneOf?.some((variant) => variant.type === "array") === true;
  return wantsArray && value !== null && typeof value !== "object" ? [value] : value;
}
