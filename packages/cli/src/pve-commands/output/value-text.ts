// One value in a table of PVE's commands.
import { stringify } from "yaml";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import { bytesText, durationText } from "@gpve/domain/backup/backup-texts.ts";
import { compactJson } from "./perl-json.ts";

/** The schema with PVE's hint of how a value is shown. */
export type ShownSchema = PveSchema & { readonly renderer?: string };

export function valueText(value: unknown, schema: ShownSchema = {}, humanReadable = true): string {
  if (value === undefined || value === null) return "";
  if (humanReadable) {
    if (schema.type === "boolean") return truthy(value) ? "1" : "0";
    const render = renderers[schema.renderer ?? ""];
    if (render !== undefined) return render(value);
  }
  return typeof value === "object" ? compactJson(value) : String(value as string | number | boolean);
}

const renderers: Readonly<Record<string, (value: unknown) => string>> = {
  bytes: (value) => bytesText(Number(value)),
  duration: (value) => (Number(value) >= 1 ? durationText(Number(value) * 1000) : ""),
  fraction_as_percentage: (value) => `${(Number(value) * 100).toFixed(2)}%`,
  timestamp: (value) => timestamp(Number(value)),
  timestamp_gmt: (value) => timestamp(Number(value), true),
  yaml: (value) => stringify(value).trimEnd(),
};

/** "2026-01-02 03:04:05" of unix seconds. */
export function timestamp(seconds: number, isUtc = false): string {
  const local = new Date(seconds * 1000);
  const shift = isUtc ? 0 : local.getTimezoneOffset() * 60_000;
  return new Date(local.getTime() - shift).toISOString().slice(0, 19).replace("T", " ");
}

export function truthy(value: unknown): boolean {
  return value === true || (value !== 0 && value !== "" && value !== "0" && Boolean(value));
}
