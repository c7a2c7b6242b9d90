// @ts-check
// The whole program as one file starts in half the time that its two thousand modules take, and needs a third less memory.
// It counts only as long as every file that it was made from is as it was then: whoever edits one runs the sources.
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";

export const oneFileOf = (/** @type {string} */ root) => join(root, ".cache/one-file/gpve.cjs");
/** Path below the root -> what `stampOf` said of it. */
export const inputsFileOf = (/** @type {string} */ root) => join(root, ".cache/one-file/inputs.json");

/** undefined = the file is not there. */
export function stampOf(/** @type {string} */ path) {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? undefined : `${stat.mtimeMs} ${stat.size}`;
}

/** undefined = there is none, or not of these sources. */
export function currentOneFile(/** @type {string} */ root) {
  /** @type {Readonly<Record<string, string>>} */
  let inputs;
  try {
    inputs = JSON.parse(readFileSync(inputsFileOf(root), "utf8"));
  } catch {
    return undefined;
  }
  const isCurrent = Object.entries(inputs).every(([path, stamp]) => stampOf(join(root, path)) === stamp);
  return isCurrent ? oneFileOf(root) : undefined;
}
