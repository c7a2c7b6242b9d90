// The architecture page names files; a page that names files which have gone leads nobody anywhere.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { shapeOf, ties } from "../../tools/shape/shape.ts";
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
const tree = new Map(product.map((path) => [path.slice("packages/".length), read(path)]));
const shape = shapeOf(tree);

test("no folder holds more files than one can read the names of", () => {
  expect(shape.crowdedFolders).toBe(0);
});

describe("the page's numbers", () => {
  const numbers = page.split("## Shape in numbers\n")[1]?.split("\n## ")[0] ?? "";
  /** Those of a row's last column. */
  const said = (row: string): readonly number[] => {
    const cell =
      numbers
        .split("\n")
        .find((line) => line.startsWith(`| ${row}`))
        ?.split("|")[3] ?? "";
    return [...cell.matchAll(/\d[\d ]*(?:\.\d+)?/g)].map(([text]) => Number(text.replaceAll(" ", "")));
  };

  test.each([
    ["files, lines of them", [shape.files, shape.lines]],
    ["folders, files in one", [shape.folders, shape.files / shape.folders]],
    ["wiring (`compose*.ts`)", [shape.wiringFiles, shape.wiringLines]],
  ])("are at most a twentieth off: %s", (row, counted) => {
    for (const [at, count] of counted.entries())
      expect(Math.abs((said(row)[at] ?? 0) / count - 1), `${said(row)[at]} for ${count}`).toBeLessThan(0.05);
  });

  test.each([
    ["folders with more than 30", shape.crowdedFolders],
    ["places that ask", shape.askers],
    ["places that share six lines", shape.sharedRuns],
    ["conditions and loops in wiring", shape.wiringDecisions],
    ["fields given by a condition", shape.conditionalFields],
  ])("are not outgrown by more than a tenth: %s", (row, counted) => {
    expect(counted).toBeLessThanOrEqual((said(row)[0] ?? -1) * 1.1);
  });

  test("name the port that ties most together", () => {
    const [first] = ties(tree);
    const row = /`(\w+)`: (\d+) members in (\d+) files +\|$/m.exec(numbers)?.slice(1) ?? [];
    expect(row[0]).toBe(first?.name);
    const counted = (first?.members ?? 0) * (first?.importers ?? 0);
    expect(counted).toBeLessThanOrEqual(Number(row[1]) * Number(row[2]) * 1.1);
  });
});

test("no use case asks for a whole host: it names the ports it needs", () => {
  const wholes = /\b(?:ClusterHost|BackupTools)\b/u;
  const users = product.filter(
    (path) => /\/(?:application|presentation)\//u.test(path) && wholes.test(read(path)),
  );
  expect(users).toEqual([]);
});

test("presentation asks nobody's rights: what is judged by the object is judged in application, for both faces", () => {
  const judges = /\baccess\s*\.(?:has|require)\(|\brequire(?:Volume\w+|RootFor)\(/u;
  const asking = product.filter((path) => path.includes("/presentation/") && judges.test(read(path)));
  expect(asking).toEqual([]);
});
