// Fails when committed generated files differ from what their generators make. Says so when the source is absent.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { generatePveFiles } from "./pve-files.ts";

const reference = resolve(process.env["GPVE_REFERENCE"] ?? "../shared/reference/pve");
if (existsSync(reference)) {
  const stale = generatePveFiles((file) => readFileSync(join(reference, file), "utf8")).filter(
    ([name, text]) => readFileSync(join("packages/contracts/src/gen", name), "utf8") !== text,
  );
  if (stale.length > 0) {
    console.error(`gen: out of date: ${stale.map(([name]) => name).join(", ")}; run npm run gen`);
    process.exit(1);
  }
  console.log("gen: PVE tables are current");
} else {
  console.log(`gen: SKIPPED, no PVE facts at ${reference}; set GPVE_REFERENCE to check the generated tables`);
}
