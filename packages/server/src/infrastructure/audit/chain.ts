import { createHash, createHmac } from "node:crypto";
import type { AuditEntry, AuditRecord } from "@gpve/domain/audit/audit-log.ts";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";

/** A point in the chain: the last entry so far. */
export interface ChainPoint {
  readonly seq: number;
  readonly hash: string;
}

export function sha256(text: string): string {
  return createHash("sha256").update(text, "utf8").digest("hex");
}

export function hmac(key: Uint8Array, text: string): string {
  return createHmac("sha256", key).update(text, "utf8").digest("hex");
}

/** The entry linked to the one before it. */
export function sealed(entry: AuditEntry, before: ChainPoint): AuditRecord {
  const body = { ...entry, seq: before.seq + 1, prevHash: before.hash };
  return { ...body, hash: sha256(canonicalJson(body)) };
}

export function lineOf(record: AuditRecord): string {
  return `${canonicalJson(record)}\n`;
}

/** A line as it was written, or undefined when a single byte of it differs. */
export function parseLine(line: Uint8Array): AuditRecord | undefined {
  const record = readLine(line);
  if (record === undefined) return undefined;
  const { hash, ...body } = record;
  // The spelling counts too: the file is evidence, not only what it says.
  const untouched = Buffer.from(canonicalJson(record)).equals(line) && hash === sha256(canonicalJson(body));
  return untouched ? record : undefined;
}

/** What a line says, whether or not it is what was written. */
export function readLine(line: Uint8Array): AuditRecord | undefined {
  try {
    const value = JSON.parse(Buffer.from(line).toString("utf8")) as Partial<AuditRecord> | null;
    const whole =
      typeof value === "object" &&
      value !== null &&
      typeof value.seq === "number" &&
      typeof value.hash === "string" &&
      typeof value.prevHash === "string" &&
      typeof value.timestamp === "string" &&
      typeof value.resource === "string";
    return whole ? (value as AuditRecord) : undefined;
  } catch {
    return undefined;
  }
}
