import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { isMissingFile } from "./missing-file.ts";

/** Writes a file so that after a crash either the old or the new content is there, never half of one. */
export function writeFileAtomic(path: string, content: string | Uint8Array, mode = 0o600): void {
  const temporary = `${path}.tmp-${process.pid}`;
  try {
    const file = openSync(temporary, "w", mode);
    try {
      writeFileSync(file, content);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (err) {
    // A full disk does not get fuller.
    rmSync(temporary, { force: true });
    throw err;
  }
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** undefined = the file is not there. */
export function readTextFile(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (err) {
    if (isMissingFile(err)) return undefined;
    throw err;
  }
}

/** undefined = the file is not there. */
export function readJsonFile(path: string): unknown {
  const text = readTextFile(path);
  return text === undefined ? undefined : (JSON.parse(text) as unknown);
}
