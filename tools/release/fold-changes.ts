// node tools/release/fold-changes.ts VERSION [DATE]: moves changes/*.md into CHANGELOG.md.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { foldInto, parseChange, releaseSection } from "./changes.ts";

const [version, date = new Date().toISOString().slice(0, 10)] = process.argv.slice(2);
if (version === undefined || !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) {
  console.error("usage: node tools/release/fold-changes.ts VERSION [YYYY-MM-DD]");
  process.exit(2);
}
const files = readdirSync("changes")
  .filter((name) => name.endsWith(".md"))
  .toSorted()
  .map((name) => join("changes", name));
const changes = files.map((file) => {
  try {
    return parseChange(readFileSync(file, "utf8"));
  } catch (err) {
    console.error(`${file}: ${err instanceof Error ? err.message : String(err)}`);
    process.exit(1);
  }
});
writeFileSync(
  "CHANGELOG.md",
  foldInto(readFileSync("CHANGELOG.md", "utf8"), releaseSection(version, date, changes)),
);
for (const file of files) rmSync(file);
console.log(`CHANGELOG.md: ${changes.length} changes in ${version}`);
