// Checklists and how-tos send their reader to files: those that are there, with what they are said to have.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { allFiles, read, ROOT } from "./source-tree.ts";

const pages = [...allFiles("docs/checklists"), ...allFiles("docs/how-to"), "CONTRIBUTING.md"].filter((path) =>
  path.endsWith(".md"),
);
/** As they are written: from the root, or below packages/ with or without `src`. */
const placesOf = (path: string): readonly string[] => {
  const [name = "", ...rest] = path.split("/");
  return [path, `packages/${path}`, ["packages", name, "src", ...rest].join("/")];
};

test("files that they name are there", () => {
  const named = pages.flatMap((page) =>
    [...read(page).matchAll(/`((?:\w+\/)+[\w.-]+\.(?:ts|json|md))`/g)]
      .filter(([, path = ""]) => /^(?:packages|test|tools|docs|bench|agent|domain|server|kit)\//.test(path))
      .map(([, path = ""]) => path),
  );
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((path) => !placesOf(path).some((each) => existsSync(join(ROOT, each))))).toEqual([]);
});

test("what they say is in a file is in it", () => {
  const said = pages.flatMap((page) => [...read(page).matchAll(/`(\w+)` (?:of|in) `(packages\/[\w/.-]+)`/g)]);
  expect(said.length).toBeGreaterThan(1);
  expect(said.filter(([, what = "", file = ""]) => !read(file).includes(what)).map(([text]) => text)).toEqual(
    [],
  );
});
