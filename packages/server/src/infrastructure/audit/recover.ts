// Where to go on writing. After a clean stop the sealed head says it. After a crash complete lines may follow the
// head: they are kept and named in an entry of their own. When the files do not fit the head, nothing is repaired:
// a new file continues from the head, and verification shows the break for ever.
import { stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { isMissingFile } from "@gpve/kit/missing-file.ts";
import { auditFiles, fileName, linesBackwards, linesFrom } from "./audit-files.ts";
import { type ChainPoint, parseLine, readLine } from "./chain.ts";
import type { Head } from "./head-file.ts";

export interface Resume {
  readonly point: ChainPoint;
  readonly file: string;
  readonly offset: number;
  /** What had to be decided; becomes an entry of the log. */
  readonly notes: readonly string[];
}

export async function resumeFrom(dir: string, anchor: string, head: Head | undefined): Promise<Resume> {
  const files = await auditFiles(dir);
  if (head === undefined) {
    if (files.length === 0) return fresh({ seq: 0, hash: anchor }, []);
    return fresh(await lastReadable(dir, files, anchor), [
      "no sealed head was found; earlier entries are unsealed",
    ]);
  }
  const size = await sizeOf(join(dir, head.file));
  if (size === undefined || size < head.offset) {
    return fresh(head, [`entries before ${head.seq + 1} are missing from the files`]);
  }
  const notes: string[] = [];
  let point: ChainPoint = { seq: head.seq, hash: head.hash };
  let { file, offset } = head;
  for (const name of files.filter((each) => each >= head.file)) {
    if (name !== file && name !== fileName(point.seq + 1)) {
      notes.push(`${name} does not belong to the log`);
      continue;
    }
    let at = name === file ? offset : 0;
    for await (const line of linesFrom(dir, name, at)) {
      const record = line.complete ? parseLine(line.bytes) : undefined;
      if (record === undefined || record.seq !== point.seq + 1 || record.prevHash !== point.hash) break;
      point = record;
      at = line.end;
    }
    const length = (await sizeOf(join(dir, name))) ?? 0;
    if (at < length) {
      // Never acknowledged: an acknowledged entry is a complete line.
      await truncate(join(dir, name), at);
      notes.push(`${length - at} bytes of an unfinished line were cut from ${name}`);
    }
    file = name;
    offset = at;
  }
  if (point.seq > head.seq) notes.push(`entries ${head.seq + 1} to ${point.seq} were written but not sealed`);
  return { point, file, offset, notes };
}

function fresh(point: ChainPoint, notes: readonly string[]): Resume {
  return { point, file: fileName(point.seq + 1), offset: 0, notes };
}

async function lastReadable(dir: string, files: readonly string[], anchor: string): Promise<ChainPoint> {
  for (const name of files.toReversed()) {
    for await (const line of linesBackwards(dir, name)) {
      const record = readLine(line);
      if (record !== undefined) return record;
    }
  }
  return { seq: 0, hash: anchor };
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (err) {
    if (isMissingFile(err)) return undefined;
    throw err;
  }
}
