// Generates packages/contracts/src/gen from the PVE API facts in ../shared/reference/pve.
// The facts are data (paths, parameters, types, permissions, roles, formats); no prose is carried over.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { generatePveFiles } from "./pve-files.ts";

const reference = resolve(process.env["GPVE_REFERENCE"] ?? "../shared/reference/pve");
const out = "packages/contracts/src/gen";

if (!existsSync(reference)) {
  console.error(`gen: no PVE facts at ${reference}; set GPVE_REFERENCE to the folder that holds pve-api.json`);
  process.exit(1);
}
mkdirSync(out, { recursive: true });
for (const [name, text] of generatePveFiles((file) => readFileSync(join(reference, file), "utf8"))) {
  writeFileSync(join(out, name), text);
  console.log(`gen: ${join(out, name)}`);
}
