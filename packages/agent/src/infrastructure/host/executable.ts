import { statSync } from "node:fs";

/** A plain file that somebody may run: root itself may run all that anybody may. */
export function isExecutable(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && found.isFile() && (found.mode & 0o111) !== 0;
}
