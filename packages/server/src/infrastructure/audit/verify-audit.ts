import type { AuditIssue, AuditIssueKind, AuditVerdict } from "@gpve/domain/audit/audit-log.ts";
import { ANCHOR_FILE, readAnchor } from "./anchor.ts";
import { auditFiles, fileName, linesFrom } from "./audit-files.ts";
import { type ChainPoint, parseLine, readLine } from "./chain.ts";
import { HEAD_FILE, readHead } from "./head-file.ts";
import { filesBefore } from "./prune-audit.ts";

export interface VerifyOptions {
  /** Where the log is known to end; a running log says so itself. Later lines are then left alone. */
  readonly live?: ChainPoint;
  /** A head noted earlier and kept elsewhere: the log must still contain it. */
  readonly expect?: ChainPoint;
}

/** After so many the picture is clear. */
const MAX_ISSUES = 100;

/** Reads the whole log and says what does not fit: changed, missing, moved, added, cut off or rewritten lines. */
export async function verifyAudit(
  dir: string,
  key: Uint8Array,
  options: VerifyOptions = {},
): Promise<AuditVerdict> {
  const issues: AuditIssue[] = [];
  const recoveries: AuditVerdict["recoveries"][number][] = [];
  const found = (kind: AuditIssueKind, file: string, line: number, detail: string): void => {
    if (issues.length < MAX_ISSUES) issues.push({ kind, file, line, detail });
  };
  const anchor = await readAnchor(dir);
  const sealedHead = await readHead(dir, key);
  const stored = sealedHead?.head;
  const all = await auditFiles(dir);
  const removed = stored?.from === undefined ? [] : filesBefore(all, stored.from);
  const files = all.filter((name) => !removed.includes(name));
  const head = options.live ?? stored;
  if (anchor === undefined && (files.length > 0 || stored !== undefined)) {
    found("seal", ANCHOR_FILE, 0, "the anchor is gone");
  }
  if (stored === undefined && files.length > 0) {
    found("seal", HEAD_FILE, 0, "no head with a valid seal: it is gone, changed, or the key is another one");
  }
  if (sealedHead?.whole === false && options.live === undefined) {
    found("seal", HEAD_FILE, 0, "one copy of the head is damaged");
  }
  if (stored !== undefined && anchor !== undefined && stored.anchor !== anchor) {
    found("seal", ANCHOR_FILE, 0, "the anchor is not the one the head was sealed with");
  }
  // What was removed to bound the log is gone by its own word.
  const from = stored?.from;
  let last: ChainPoint = from ?? { seq: 0, hash: anchor ?? "" };
  let entries = 0;
  const watched = [head, options.expect].filter((point) => point !== undefined);
  reading: for (const file of files) {
    let number = 0;
    for await (const line of linesFrom(dir, file)) {
      number++;
      const record = readLine(line.bytes);
      if (head !== undefined && last.seq >= head.seq) {
        if (options.live !== undefined) break reading;
        found("unsealed", file, number, `after the sealed head (entry ${head.seq})`);
        continue;
      }
      if (record === undefined) {
        found("changed", file, number, line.complete ? "not an audit entry" : "the line is cut off");
        continue;
      }
      if (!line.complete || parseLine(line.bytes) === undefined) {
        found("changed", file, number, `entry ${record.seq} is not as it was written`);
      }
      if (number === 1 && file !== fileName(record.seq)) {
        found("misplaced", file, number, `the file begins with entry ${record.seq}`);
      }
      if (record.seq <= last.seq) {
        found("misplaced", file, number, `entry ${record.seq} comes after entry ${last.seq}`);
        continue;
      }
      if (record.seq > last.seq + 1) {
        found("missing", file, number, `entries ${last.seq + 1} to ${record.seq - 1} are gone`);
      } else if (record.prevHash !== last.hash) {
        found("changed", file, number, `entry ${record.seq} is not chained to the entry before it`);
      }
      for (const point of watched) {
        if (record.seq === point.seq && record.hash !== point.hash) {
          found("rewritten", file, number, `entry ${record.seq} is not the one that was sealed`);
        }
      }
      if (record.verb === "recover" && record.resource === "/audit") {
        recoveries.push({ seq: record.seq, timestamp: record.timestamp, message: record.message });
      }
      entries++;
      last = record;
    }
  }
  for (const point of watched) {
    if (point.seq > last.seq) {
      found(
        "truncated",
        files.at(-1) ?? "",
        0,
        `entries ${last.seq + 1} to ${point.seq} are gone from the end`,
      );
    }
  }
  return {
    ok: issues.length === 0,
    entries,
    head: { seq: last.seq, hash: last.hash },
    issues,
    recoveries,
  };
}
