import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/threat-model.md"), "utf8");

describe("the threat model", () => {
  test("names only tests that are there", () => {
    const named = [...page.matchAll(/`((?:test|packages)\/[^`]+)`/g)].map(([, path = ""]) => path);
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter((path) => !path.endsWith(".test.ts") || !existsSync(join(root, path)))).toEqual([]);
  });

  test("says for each attack what stops it, and what shows it", () => {
    const rows = page.split("\n").filter((line) => line.startsWith("| ") && !/^\| (?:what|-)/.test(line));
    expect(rows.length).toBeGreaterThan(20);
    const incomplete = rows.filter((row) => {
      const [, attack = "", stop = "", tests = ""] = row.split("|").map((cell) => cell.trim());
      return attack === "" || stop === "" || !tests.includes(".test.ts`");
    });
    expect(incomplete).toEqual([]);
  });
});
