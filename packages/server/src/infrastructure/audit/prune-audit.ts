// A log of bounded size: when there are too many files, the oldest go. The sealed head then says where the log begins,
// so that what somebody else removed is still found missing.
import { unlink } from "node:fs/promises";
import { join } from "node:path";
import { syncDirectory } from "./anchor.ts";
import { auditFiles, firstSeqOf, linesFrom } from "./audit-files.ts";
import { type ChainPoint, parseLine } from "./chain.ts";

/** The last entry that goes when only `maxFiles` stay; undefined = all stay, or the place of the cut is not whole. */
export async function pruningPoint(dir: string, maxFiles: number): Promise<ChainPoint | undefined> {
  const files = await auditFiles(dir);
  const first = files.at(-maxFiles);
  if (files.length <= maxFiles || first === undefined) return undefined;
  for await (const line of linesFrom(dir, first)) {
    const record = line.complete ? parseLine(line.bytes) : undefined;
    return record === undefined ? undefined : { seq: record.seq - 1, hash: record.prevHash };
  }
  return undefined;
}

/** To be called when the head that says so is on the disk. A crash before it leaves files that go the next time. */
export async function removeBefore(dir: string, from: ChainPoint): Promise<void> {
  const gone = filesBefore(await auditFiles(dir), from);
  for (const name of gone) await unlink(join(dir, name));
  if (gone.length > 0) await syncDirectory(dir);
}

/** Those that hold nothing but what went. */
export function filesBefore(files: readonly string[], from: ChainPoint): string[] {
  return files.filter((_name, at) => {
    const next = files[at + 1];
    return next !== undefined && firstSeqOf(next) <= from.seq + 1;
  });
}
