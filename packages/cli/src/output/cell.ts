// One value as a person reads it in a table.
import { inByteUnits } from "@gpve/contracts/byte-units.ts";
import { printable } from "./display-width.ts";

export type CellFormat =
  | "text"
  | "age"
  | "time"
  | "expiry"
  | "bytes"
  | "percent"
  | "boolean"
  | "list"
  | "sentences"
  | "duration"
  | "state";

export function isCellFormat(value: unknown): value is CellFormat {
  return typeof value === "string" && FORMATS.has(value);
}
const FORMATS = new Set([
  "text",
  "age",
  "time",
  "expiry",
  "bytes",
  "percent",
  "boolean",
  "list",
  "sentences",
  "duration",
  "state",
]);

/** `nowMs` is what ages count from. Absent values are "-". */
export function cellText(value: unknown, format: CellFormat, nowMs: number): string {
  if (value === undefined || value === null || value === "") return "-";
  switch (format) {
    case "age":
      return ageText(value, nowMs);
    case "time":
      return timeText(value);
    case "expiry":
      return value === 0 ? "never" : timeText(value);
    case "bytes":
      return numeric(value, bytesCell);
    case "percent":
      return numeric(value, (number) => `${(number * 100).toFixed(1)} %`);
    case "duration":
      return numeric(value, durationCell);
    case "boolean":
      return value === true || value === 1 || value === "1" ? "yes" : "no";
    case "list":
      return Array.isArray(value) ? listText(value) : plainText(value);
    case "sentences":
      return Array.isArray(value) ? value.map(plainText).join("; ") : plainText(value);
    case "text":
    case "state":
      return plainText(value);
  }
}

export function bytesCell(bytes: number): string {
  // 1023.99 would round up to "1024.0 KiB"; the next unit says it better.
  const [amount, unit] = inByteUnits(Math.abs(bytes), 1023.95);
  return `${bytes < 0 ? "-" : ""}${unit === "B" ? String(amount) : amount.toFixed(1)} ${unit}`;
}

export function durationCell(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const days = Math.floor(whole / 86400);
  const hours = Math.floor(whole / 3600) % 24;
  const minutes = Math.floor(whole / 60) % 60;
  if (days > 0) return hours === 0 ? `${days}d` : `${days}d${hours}h`;
  if (hours > 0) return minutes === 0 ? `${hours}h` : `${hours}h${minutes}m`;
  if (minutes > 0) return whole % 60 === 0 ? `${minutes}m` : `${minutes}m${whole % 60}s`;
  return `${whole}s`;
}

/** Milliseconds of an RFC 3339 text or of PVE's unix seconds. */
function millis(value: unknown): number | undefined {
  if (typeof value === "number") return value * 1000;
  const parsed = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isNaN(parsed) ? undefined : parsed;
}

function ageText(value: unknown, nowMs: number): string {
  const then = millis(value);
  return then === undefined ? plainText(value) : durationCell((nowMs - then) / 1000);
}

function timeText(value: unknown): string {
  const then = millis(value);
  if (then === undefined || Math.abs(then) > 8.64e15) return plainText(value);
  return `${new Date(then).toISOString().slice(0, 19).replace("T", " ")}Z`;
}

function numeric(value: unknown, show: (number: number) => string): string {
  const number = typeof value === "number" ? value : Number(value);
  return Number.isFinite(number) ? show(number) : plainText(value);
}

function listText(values: readonly unknown[]): string {
  return values.length === 0 ? "-" : values.map(plainText).join(",");
}

export function plainText(value: unknown): string {
  if (typeof value === "string") return printable(value);
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint")
    return String(value);
  if (typeof value === "object" && value !== null && "name" in value && typeof value.name === "string") {
    return printable(value.name);
  }
  return printable(JSON.stringify(value) ?? "-");
}
