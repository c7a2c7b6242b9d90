import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { clusterPage } from "../cluster/cluster-page.ts";
import { publishedClusterSchema } from "../cluster/cluster-schema.ts";
import { catalogue, findingKind } from "./catalogue.ts";
import { findingsPage } from "./findings-page.ts";

const source = resolve(import.meta.dirname, "..");
const docs = resolve(source, "../../../docs/reference");
const code = readdirSync(source, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.includes("findings"))
  .map((file) => readFileSync(join(source, file), "utf8"))
  .join("\n");

test("every finding of the catalogue is found by something, and every one that is raised is in it", () => {
  for (const id of Object.keys(catalogue)) expect(code, id).toContain(`"${id}"`);
  for (const [, id = ""] of code.matchAll(/finding: "([\w-]+)"/g)) expect(catalogue).toHaveProperty(id);
});

test("an unknown id is answered with the nearest one", () => {
  expect(() => findingKind("vip-outside-networks")).toThrow("did you mean vip-outside-network?");
  expect(() => findingKind("constructor")).toThrow('there is no finding "constructor"');
});

test.each([
  ["talos-findings.md", findingsPage],
  ["talos-cluster.md", clusterPage],
  ["gen/talos-cluster.schema.json", () => `${JSON.stringify(publishedClusterSchema(), null, 2)}\n`],
])("docs/reference/%s is current", (file, made) => {
  expect(readFileSync(join(docs, file), "utf8"), "run: node tools/gen/talos.ts").toBe(made());
});
