// @ts-check
// What the launcher starts: the whole program as one file where that was made from just these sources, else the sources.
// No TypeScript up to here: Node's own compiler for it takes 13 MiB, and one file needs it no more.
import { createRequire, enableCompileCache } from "node:module";
import { resolve } from "node:path";
import { currentOneFile } from "./one-file/current-one-file.js";

const root = resolve(import.meta.dirname, "../../..");
// Compiled code is kept beside the sources it comes from: whoever starts it next starts in half the time. Where the folder
// cannot be written nothing is kept, and that is all.
enableCompileCache(process.env["NODE_COMPILE_CACHE"] ?? resolve(root, ".cache/compile"));
const file = currentOneFile(root);
if (file === undefined) await import("./program.ts");
else createRequire(import.meta.url)(file);
