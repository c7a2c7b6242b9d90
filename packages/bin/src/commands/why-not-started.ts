// What to tell of a process that did not start: its own last words, not those of one before it. On a full disk there may
// be none, then the disk is the reason.
import { statfsSync, statSync } from "node:fs";
import { readFileTail } from "@gpve/kit/file-tail.ts";

const LINES = 15;
const MAX_BYTES = 64 * 1024;
/** With less than this nothing starts. */
const FULL_BELOW_BYTES = 64 * 1024;

export const DISK_IS_FULL =
  "the data directory's disk is full; free some space, or choose another with --data DIR";

export interface LastWords {
  /** Says why, in words for the user. */
  tell(): string;
}

/** To be called before the process is started. */
export function lastWords(dataDir: string, logFile: string): LastWords {
  const before = sizeOf(logFile);
  return {
    tell: () => {
      const said = Math.max(0, sizeOf(logFile) - before);
      const lines = readFileTail(logFile, Math.min(said, MAX_BYTES)).trimEnd();
      if (lines !== "") {
        return `gpve did not start; the last lines of ${logFile}:\n${lines.split("\n").slice(-LINES).join("\n")}`;
      }
      const { bavail, bsize } = statfsSync(dataDir);
      const why = bavail * bsize < FULL_BELOW_BYTES ? DISK_IS_FULL : `it said nothing in ${logFile}`;
      return `gpve did not start: ${why}`;
    },
  };
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
