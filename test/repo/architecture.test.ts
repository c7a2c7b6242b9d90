// The architecture page names files; a page that names files which have gone leads nobody anywhere.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { isTest, read, ROOT, sources } from "./source-tree.ts";

const page = readFileSync(join(ROOT, "docs/architecture.md"), "utf8");
const walks = page.split("## Three walks\n")[1]?.split("\n## ")[0] ?? "";

test("every file of the walks is there, and no walk comes back to one", () => {
  const tables = walks.split(/\n\*\*/).slice(1);
  const files = tables.map((table) => [...table.matchAll(/^\| `([^`]+)`/gm)].map(([, file = ""]) => file));
  expect(files.map((walk) => walk.length > 5)).toEqual([true, true, true]);
  for (const walk of files) {
    expect(walk.filter((file) => !existsSync(join(ROOT, "packages", file)))).toEqual([]);
    expect(new Set(walk).size).toBe(walk.length);
  }
});

test("every file of the seams is there", () => {
  const seams = page.split("## Seams\n")[1]?.split("\n## ")[0] ?? "";
  const files = [...seams.matchAll(/`(packages\/[^`]+\.\w+)`/g)].map(([, file = ""]) => file);
  expect(files.length).toBeGreaterThan(10);
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

const product = sources().filter((path) => path.startsWith("packages/") && !isTest(path));
const lineCount = (paths: readonly string[]): number =>
  paths.reduce((sum, path) => sum + read(path).split("\n").length - 1, 0);

test("no folder holds more files than one can read the names of", () => {
  const folders = Map.groupBy(product, (path) => dirname(path));
  expect([...folders].filter(([, files]) => files.length > 30).map(([folder]) => folder)).toEqual([]);
});

test("the page's numbers of files and lines are at most a twentieth off", () => {
  const row = /^\| files, lines of them +\|[^|]*\| ([\d ]+), ([\d ]+?) +\|$/m.exec(page) ?? [];
  const [files, lines] = row.slice(1).map((text) => Number(text.replaceAll(" ", "")));
  for (const [said, counted] of [
    [files, product.length],
    [lines, lineCount(product)],
  ] as const)
    expect(Math.abs((said ?? 0) / counted - 1), `${said} for ${counted}`).toBeLessThan(0.05);
});

test("no use case asks for a whole host: it names the ports it needs", () => {
  const wholes = /\b(?:ClusterHost|BackupTools)\b/u;
  const users = product.filter(
    (path) => /\/(?:application|presentation)\//u.test(path) && wholes.test(read(path)),
  );
  expect(users).toEqual([]);
});
