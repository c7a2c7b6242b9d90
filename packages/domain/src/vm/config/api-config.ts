import { vmKeySchema } from "./keys.ts";
import { MASKED } from "../change/pending.ts";
import type { VmValues } from "./vm-config.ts";

/**
 * Values as the API shows them: integer and boolean keys are numbers; `number` keys and everything with a format
 * (memory included) stay text.
 */
export function apiConfig(values: VmValues): Record<string, string | number> {
  const shown: Record<string, string | number> = {};
  for (const [key, value] of Object.entries(values)) shown[key] = apiValue(key, value);
  return shown;
}

export function apiValue(key: string, value: string): string | number {
  if (key === "cipassword") return MASKED;
  const type = vmKeySchema(key)?.type;
  return type === "integer" || type === "boolean" ? Number(value) : value;
}

/** A checked parameter back to the text a configuration file holds. */
export function configText(value: string | number | boolean): string {
  return typeof value === "boolean" ? (value ? "1" : "0") : String(value);
}
