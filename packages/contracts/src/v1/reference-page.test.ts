import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { referencePage } from "./reference-page.ts";

test("docs/reference/api-v1.md is current", () => {
  const path = fileURLToPath(new URL("../../../../docs/reference/api-v1.md", import.meta.url));
  expect(readFileSync(path, "utf8"), "run: node tools/gen/api-v1.ts").toBe(referencePage());
});
