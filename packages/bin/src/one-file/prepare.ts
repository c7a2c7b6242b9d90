// node packages/bin/src/one-file/prepare.ts: makes the one file anew where the sources are not those it was made from.
import { resolve } from "node:path";
import { messageOf } from "@gpve/contracts/errors.ts";
import { currentOneFile } from "./current-one-file.js";

const root = resolve(import.meta.dirname, "../../../..");
try {
  // esbuild is loaded only when there is something to do.
  if (currentOneFile(root) === undefined) await (await import("./make-one-file.ts")).makeOneFile(root);
} catch (err) {
  // Everything works from the sources too, slower.
  console.error(`gpve: starts from its sources, as one file of them cannot be made: ${messageOf(err)}`);
}
