import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { isMissingFile } from "./missing-file.ts";

/** Writes a file so that after a crash either the old or the new content is there, never half of one. */
export function writeFileAtomic(path: string, content: string | Uint8Array, mode = 0o600): void {
  replaceFile(path, content, mode, fsyncSync);
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** The same for whoever reads it while this machine runs: quick, and after a loss of power there may be nothing in it. */
export function writeFileWhole(path: string, content: string | Uint8Array, mode = 0o600): void {
  replaceFile(path, content, mode, () => undefined);
}

function replaceFile(
  path: string,
  content: string | Uint8Array,
  mode: number,
  settle: (file: number) => void,
): void {
  const temporary = `${path}.tmp-${process.pid}`;
  try {
    const file = openSync(temporary, "w", mode);
    try {
      writeFileSync(file, content);
      settle(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (err) {
    // A full disk does not get fuller.
    rmSync(temporary, { force: true });
    throw err;
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
