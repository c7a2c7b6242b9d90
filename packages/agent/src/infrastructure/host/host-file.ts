// Files of the host that others read too: replaced whole, links and mounts left as they are.
import { realpathSync, writeFileSync } from "node:fs";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";

export function replaceHostFile(path: string, content: string): void {
  const target = followed(path);
  try {
    replace(target, content);
  } catch (cause) {
    throw new AppError("internal.error", `cannot write ${target}: ${messageOf(cause)}`, { cause });
  }
}

/** A link stays a link: what it points to is replaced. */
function followed(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function replace(path: string, content: string): void {
  try {
    writeFileAtomic(path, content, 0o644);
  } catch (err) {
    // A file that is itself a mount (containers) can only be written in place.
    if ((err as NodeJS.ErrnoException).code !== "EBUSY") throw err;
    writeFileSync(path, content);
  }
}
