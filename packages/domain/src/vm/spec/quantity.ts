// Sizes as /api/v1 writes them: a number and a binary unit, 4Gi. PVE's G means the same and other tools' G does not,
// so units that can be misread are refused.
import { invalidField } from "@gpve/contracts/invalid-field.ts";

const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi"] as const;
const PATTERN = /^(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|Pi)?$/;

export const MIB = 1024 ** 2;
export const GIB = 1024 ** 3;

/** Bytes, or request.invalid under `path`. */
export function parseQuantity(text: string, path: string): number {
  const [, digits, unit = ""] = PATTERN.exec(text) ?? [];
  const bytes = Number(digits) * 1024 ** UNITS.indexOf(unit as (typeof UNITS)[number]);
  if (digits !== undefined && Number.isSafeInteger(bytes)) return bytes;
  throw invalidField(path, whyNoSize(text, digits === undefined));
}

/** In the largest unit that states it exactly: 34359738368 -> 32Gi, 1000 -> 1000. */
export function formatQuantity(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value !== 0 && value % 1024 === 0 && unit < UNITS.length - 1)
    [value, unit] = [value / 1024, unit + 1];
  return `${value}${UNITS[unit] ?? ""}`;
}

/** A whole number of MiB, as PVE counts memory. */
export function parseMiB(text: string, path: string): number {
  const mib = parseQuantity(text, path) / MIB;
  if (Number.isInteger(mib)) return mib;
  throw invalidField(path, `'${text}' is not a whole number of Mi`);
}

function whyNoSize(text: string, isMisspelt: boolean): string {
  if (!isMisspelt) return `'${text}' is not a whole number of bytes, or too large`;
  const [, digits, letter] = /^\s*(\d+(?:\.\d+)?)\s*([kmgtp])i?b?\s*$/i.exec(text) ?? [];
  const meant = letter === undefined ? undefined : `${digits}${letter.toUpperCase()}i`;
  const hint = meant === undefined ? "" : `; did you mean '${meant}'?`;
  return `'${text}' is no size: write a number and Ki, Mi, Gi, Ti or Pi${hint}`;
}
