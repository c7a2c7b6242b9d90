import { realpathSync } from "node:fs";
import { isSea } from "node:sea";
import { dirname, resolve } from "node:path";

/** argv that starts this program again: the single executable, or node with the entry file. */
export function selfCommand(): readonly string[] {
  if (isSea()) return [process.execPath];
  return [process.execPath, ...process.execArgv, process.argv[1] ?? ""];
}

/** The same for a process in a view of its own: what is started, and which folders it reads. */
export function selfProgram(): {
  readonly program: string;
  readonly args: readonly string[];
  readonly folders: readonly string[];
} {
  const program = realpathSync(process.execPath);
  if (isSea()) return { program, args: [], folders: [] };
  const entry = realpathSync(process.argv[1] ?? "");
  // packages/bin/src/main.js: the sources and node_modules are three folders above.
  const root = resolve(dirname(entry), "..", "..", "..");
  return { program, args: [...process.execArgv, entry], folders: [root] };
}
