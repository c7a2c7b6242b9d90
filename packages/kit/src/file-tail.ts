import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";

/**
 * The last bytes of a file as text, however large it is; "" where there is none. The first line may be cut off, and a
 * character with it. What is no file, or a link, has no text: a guest may have put it there.
 */
export function readFileTail(path: string, maxBytes: number): string {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (err) {
    const { code } = err as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ELOOP") return "";
    throw err;
  }
  try {
    const facts = fstatSync(file);
    if (!facts.isFile()) return "";
    const bytes = Buffer.alloc(Math.min(facts.size, maxBytes));
    const got = readSync(file, bytes, 0, bytes.length, facts.size - bytes.length);
    return bytes.toString("utf8", 0, got);
  } finally {
    closeSync(file);
  }
}
