// Compiled code is kept beside the sources it comes from: everything that is loaded from here on starts in half the time,
// whoever starts it. Where the folder cannot be written nothing is kept, and that is all.
import { enableCompileCache } from "node:module";
import { resolve } from "node:path";
import { isSea } from "node:sea";

export function keepCompiledCode(): void {
  // The single executable carries its own.
  if (isSea()) return;
  enableCompileCache(
    process.env["NODE_COMPILE_CACHE"] ?? resolve(process.argv[1] ?? "", "../../../../.cache/compile"),
  );
}
