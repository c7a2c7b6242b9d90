import { isSea } from "node:sea";

/** argv that starts this program again: the single executable, or node with the entry file. */
export function selfCommand(): readonly string[] {
  if (isSea()) return [process.execPath];
  return [process.execPath, ...process.execArgv, process.argv[1] ?? ""];
}
