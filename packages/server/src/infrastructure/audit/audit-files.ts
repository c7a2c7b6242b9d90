import { createReadStream } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { isMissingFile } from "@gpve/kit/missing-file.ts";

/** Named by the sequence number of their first entry, so that a missing file shows. */
export function fileName(firstSeq: number): string {
  return `audit-${String(firstSeq).padStart(12, "0")}.jsonl`;
}

export function firstSeqOf(name: string): number {
  return Number(/^audit-(\d{12})\.jsonl$/.exec(name)?.[1] ?? Number.NaN);
}

/** Oldest first. */
export async function auditFiles(dir: string): Promise<string[]> {
  const names = await readdir(dir).catch((err: unknown) => {
    if (isMissingFile(err)) return [];
    throw err;
  });
  return names.filter((name) => !Number.isNaN(firstSeqOf(name))).toSorted();
}

export interface Line {
  readonly bytes: Buffer;
  /** Where the next line begins. */
  readonly end: number;
  /** The last line of a file may lack its newline: it was being written. */
  readonly complete: boolean;
}

/** Far more than an entry may have; a file without newlines must not fill the memory. */
const MAX_LINE = 1024 * 1024;

export async function* linesFrom(dir: string, name: string, start = 0): AsyncGenerator<Line> {
  let rest: Buffer = Buffer.alloc(0);
  let end = start;
  for await (const chunk of createReadStream(join(dir, name), { start }) as AsyncIterable<Buffer>) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let from = 0;
    for (let at = rest.indexOf(10); at >= 0; at = rest.indexOf(10, from)) {
      end += at + 1 - from;
      yield { bytes: rest.subarray(from, at), end, complete: true };
      from = at + 1;
    }
    rest = rest.subarray(from);
    if (rest.length > MAX_LINE) break;
  }
  if (rest.length > 0) yield { bytes: rest, end: end + rest.length, complete: false };
}

/** The complete lines of a file, last first. */
export async function* linesBackwards(
  dir: string,
  name: string,
  chunkSize = 256 * 1024,
): AsyncGenerator<Buffer> {
  const handle = await open(join(dir, name), "r");
  try {
    let position = (await handle.stat()).size;
    let rest: Buffer = Buffer.alloc(0);
    let sawEnd = false;
    while (position > 0 && rest.length <= MAX_LINE) {
      const size = Math.min(chunkSize, position);
      position -= size;
      const chunk = Buffer.alloc(size);
      await handle.read(chunk, 0, size, position);
      rest = Buffer.concat([chunk, rest]);
      for (let at = rest.lastIndexOf(10); at >= 0; at = rest.lastIndexOf(10)) {
        // What follows the last newline of the file is still being written.
        if (sawEnd) yield rest.subarray(at + 1);
        sawEnd = true;
        rest = rest.subarray(0, at);
      }
    }
    if (sawEnd && position === 0) yield rest;
  } finally {
    await handle.close();
  }
}
