import { type AuditFilters, type AuditRecord, matchesAudit } from "@gpve/domain/audit/audit-log.ts";
import { auditFiles, firstSeqOf, linesBackwards, linesFrom } from "./audit-files.ts";
import { readLine } from "./chain.ts";

/** Entries as the files tell them, without judging: `verifyAudit` judges. Reads as far as it is asked to. */
export async function* listAudit(dir: string, filters: AuditFilters = {}): AsyncGenerator<AuditRecord> {
  let left = filters.limit ?? Number.POSITIVE_INFINITY;
  for await (const line of lines(dir, filters)) {
    if (left <= 0) return;
    const record = readLine(line);
    if (record === undefined || !matchesAudit(record, filters)) continue;
    left--;
    yield record;
  }
}

async function* lines(dir: string, { newestFirst, before }: AuditFilters): AsyncGenerator<Uint8Array> {
  const files = (await auditFiles(dir)).filter((name) => before === undefined || firstSeqOf(name) < before);
  if (newestFirst === true) {
    for (const name of files.toReversed()) yield* linesBackwards(dir, name);
    return;
  }
  for (const name of files) {
    for await (const line of linesFrom(dir, name)) if (line.complete) yield line.bytes;
  }
}
