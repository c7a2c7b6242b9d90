// What is asked of a cluster's API server, written down by it in a folder of the cluster's own.
import { closeSync, fstatSync, mkdirSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { auditPolicy } from "@gpve/domain/vcluster/audit-policy.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";

const TAIL_BYTES = 256 * 1024;

export function auditFiles(place: string): { readonly policy: string; readonly folder: string } {
  return { policy: join(place, "audit-policy.json"), folder: join(place, "audit") };
}

export function writeAuditPolicy(place: string): void {
  const { policy, folder } = auditFiles(place);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const text = JSON.stringify(auditPolicy);
  if (readTextFile(policy) !== text) writeFileAtomic(policy, text, 0o644);
}

/** The last lines of it, oldest first; none where nothing was asked yet. */
export function lastAuditLines(place: string): readonly string[] {
  let file: number;
  try {
    file = openSync(join(auditFiles(place).folder, "audit.log"), "r");
  } catch (err) {
    ignore(err, "the API server has not written any");
    return [];
  }
  try {
    const { size } = fstatSync(file);
    const from = Math.max(0, size - TAIL_BYTES);
    const bytes = Buffer.alloc(size - from);
    readSync(file, bytes, 0, bytes.length, from);
    const lines = bytes.toString("utf8").split("\n");
    // The first of a part of a file has lost its beginning.
    return lines.slice(from === 0 ? 0 : 1).filter((line) => line !== "");
  } finally {
    closeSync(file);
  }
}
