// knip counts tests as users. What the product exports and nothing but tests asks for is no part of the product: it goes, or
// stands in a folder `testing`.
import { expect, test } from "vitest";
import { allFiles, isTest, read, sources } from "./source-tree.ts";

/** Asked for by tests alone, on purpose. */
const kept: Readonly<Record<string, string>> = {
  FetchTransport: "for browsers, which nothing here is",
  agentKeys: "a test changes each key of the file and looks for what it changes",
  isKnownFormat: "a test looks for formats of PVE's methods that nobody checks",
  operationStatesPage: "a test holds the reference page to it",
  serverKeys: "as agentKeys",
};

const EXPORT = /^export (?:async )?(?:function\*?|const|class) (\w+)/gmu;
const withoutComments = (text: string): string => text.replaceAll(/^\s*(?:\/\*|\*|\/\/).*/gmu, "");
const wordsOf = (text: string): readonly string[] => text.match(/\w+/gu) ?? [];

/** Exports that are named once in all of these: where they are declared. */
export function unasked(files: ReadonlyMap<string, string>, others: readonly string[]): readonly string[] {
  const named = new Map<string, number>();
  for (const text of [...files.values(), ...others])
    for (const word of wordsOf(withoutComments(text))) named.set(word, (named.get(word) ?? 0) + 1);
  return [...files].flatMap(([path, text]) =>
    [...text.matchAll(EXPORT)]
      .map(([, name = ""]) => name)
      .filter((name) => named.get(name) === 1)
      .map((name) => `${path}: ${name}`),
  );
}

test("an export that nobody names is found, whatever comments say of it", () => {
  const files = new Map([
    ["a.ts", "/** Not like dead. */\nexport function used() {}\nexport const dead = 1;\n"],
    ["b.ts", "// dead\nused();\n"],
  ]);
  expect(unasked(files, [])).toEqual(["a.ts: dead"]);
  expect(unasked(files, ["import { dead } from './a.ts'"])).toEqual([]);
});

test("what the product exports, the product asks for", () => {
  const product = sources().filter((path) => path.startsWith("packages/") && !isTest(path));
  const others = [...allFiles("tools"), ...allFiles("bench")]
    .filter((path) => path.endsWith(".ts"))
    .map(read);
  const found = unasked(new Map(product.map((path) => [path, read(path)])), others);
  const names = found.map((each) => each.split(": ")[1] ?? "");
  expect(found.filter((_, at) => kept[names[at] ?? ""] === undefined)).toEqual([]);
  expect(names.toSorted()).toEqual(Object.keys(kept).toSorted());
});
