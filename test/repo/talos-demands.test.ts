// The page of demands on Talos clusters answers every row once, and names only tests and files that are there.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const page = readFileSync(join(ROOT, "docs/reference/talos-demands.md"), "utf8");
const rows = [...page.matchAll(/^\| (\d-[^|]+?) *\|([^|]*)\|([^|]*)\|([^|]*)\|$/gm)];
/** How many demands each source has. */
const DEMANDS = [36, 38, 33, 31];

test("every demand is answered, and once", () => {
  const answered = rows.flatMap(([, ids = ""]) => ids.split(", ").flatMap((each) => rangeOf(each)));
  const all = DEMANDS.flatMap((count, from) =>
    Array.from({ length: count }, (_none, at) => `${from}-${at + 1}`),
  );
  expect(answered.toSorted()).toEqual(all.toSorted());
});

test("the files that it names are there", () => {
  const named = rows.flatMap(([, , , here = "", shown = ""]) => [
    ...[...shown.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => [`packages/${path}`, `test/${path}`]),
    ...[...here.matchAll(/`(examples\/[^`]+)`/g)].map(([, path = ""]) => [path]),
  ]);
  expect(named.length).toBeGreaterThan(80);
  expect(named.filter((places) => !places.some((path) => existsSync(join(ROOT, path))))).toEqual([]);
});

/** "2-7 to 2-9" is three of them. */
function rangeOf(text: string): readonly string[] {
  const [from = "", to = from] = text.split(" to ");
  const [source, first] = from.split("-");
  const last = Number(to.split("-")[1]);
  return Array.from({ length: last - Number(first) + 1 }, (_none, at) => `${source}-${Number(first) + at}`);
}
