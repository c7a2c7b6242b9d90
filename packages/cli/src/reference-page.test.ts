import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { allCommands } from "./commands.ts";
import { referencePage } from "./reference-page.ts";

const page = referencePage(allCommands);

test("docs/reference/gpvectl.md is current", () => {
  const path = fileURLToPath(new URL("../../../docs/reference/gpvectl.md", import.meta.url));
  expect(readFileSync(path, "utf8"), "run: node tools/gen/gpvectl.ts").toBe(page);
});

test("the page has a section for every command", () => {
  for (const spec of allCommands) expect(page).toContain(`\n### ${spec.name}\n`);
});
